/* Grant, lapse, restart and fencing of one scope, as this product does them.

   Read it like a TLA+ specification: every `d_step` is one action, taken at any time when its first line holds. The
   bottom of the file says who may take which. Time has no beginning and no end here: nothing stores an instant, only
   lengths that shrink with every tick, so the search covers runs of any duration with any number of crashes.
   Bounded are the clients, the attempts of each, and with them the grants.

   A lease is named by its client and its attempt, because an attempt makes at most one. Each -D switch takes one
   protection away; README.md has the table of what breaks then. The NO_ ones make a kinder world instead, in which
   random runs get further. Lines that print are read by tests/model, which does the same with the real ledger. */

#define CLIENTS  2
#ifndef ATTEMPTS
#define ATTEMPTS 1
#endif
#ifndef TTL
#define TTL      2                      /* ticks; what an acquire asks for */
#define GROWN    3                      /* what a renewal may ask for instead */
#endif
#define TOKENS   (CLIENTS * ATTEMPTS)   /* broken variants grant without end; they are cut off here */

#define ID(c, a)     (1 + (c) * ATTEMPTS + (a))
#define BIT(id)      (1 << (id))
#define HAS(set, id) ((set) & BIT(id))
#define ASKED(c)     ID(c, client[c].ask_attempt)
#define SAID(c)      ID(c, client[c].say_attempt)
#define REPLIED(c)   ID(c, client[c].reply_attempt)
#define LESS(x)      x = (x > 0 -> x - 1 : 0)
#define MORE(x)      x = (x < GROWN -> x + 1 : GROWN)

mtype = { none, idle, asking, holding, over, renewing, releasing, parked, leaving };

/* What the engine stores with each batch. Deadlines are not in it: renewals are not written. */
typedef Books {
    byte lease;         /* the live one, 0 if none */
    byte token;         /* its token */
    byte ttl;           /* the largest ever promised for it */
    byte counter;       /* the last token */
    byte known          /* the attempts that were granted, a set: a repeat of one never grants again */
}

/* A message stays on its way until it is lost, so it can arrive late, twice or never. One of each sort per client. */
typedef Client {
    mtype state = idle;
    byte attempt;       /* the present one */
    byte token;         /* of the lease that it was granted */
    byte trust;         /* for how long it still believes, by its own clock */

    bool ask;           /* an acquire on its way */
    byte ask_attempt;
    byte ask_age;       /* ticks since it was sent */

    mtype say = none;       /* a renewal or a release on its way */
    byte say_attempt;
    byte say_ttl;
    byte say_age;

    mtype reply = none;     /* a promise on its way. Refusals are not modelled: they only make a client stop sooner */
    byte reply_attempt;
    byte reply_token;
    byte reply_worth    /* the trust that it would give if it arrived now */
}

Books memory, disk;
Client client[CLIENTS];
bool up = true;
bool dirty;             /* the memory knows what the disk does not */
byte write;             /* a slow write on its way to the store: the lease that it was made under, 0 if none */
byte write_token;       /* and the token that it names */
byte left;              /* of the live lease, in server time */
byte kept;              /* what would be left by the deadline in the record, which no renewal moves; only a switch uses it */

/* What the outside has a right to, by the replies that left. No action looks at these; only the properties do. */
byte newest;            /* the largest token that was acknowledged */
byte acked;             /* leases whose grant was acknowledged */
byte ended;             /* leases whose end is durable */
byte owed[CLIENTS];     /* for how long the scope was promised to this client */

/* The properties. Each is a flag, so that Spin names the one that is broken. There the run ends: what would follow from
   it says nothing about the protection that is missing. */
bool exclusion_by_server_time = true;
bool exclusion_of_belief = true;
bool no_stale_write = true;
bool tokens_rise = true;
bool an_attempt_is_granted_once = true;
bool no_resurrection = true;

#define HEALTHY (exclusion_by_server_time && exclusion_of_belief && no_stale_write && \
                 tokens_rise && an_attempt_is_granted_once && no_resurrection)

/* Replies */

/* The reply leaves: from here on somebody may rely on it. */
inline acknowledge(c) {
    client[c].reply = leaving;
    acked = acked | BIT(REPLIED(c));
    newest = (client[c].reply_token > newest -> client[c].reply_token : newest);
    owed[c] = (memory.lease == REPLIED(c) && left > owed[c] -> left : owed[c])
}

#ifdef REPLY_BEFORE_COMMIT
#define DURABLE true
#else
#define DURABLE (!dirty)
#endif

/* Promise what is left of the live lease. The reply leaves once all that it saw is durable, so a renewal that wrote
   nothing leaves at once. Trust counts from the sending: the way of the request is already used up. */
inline promise(c, which, way) {
    client[c].reply_attempt = which;
    client[c].reply_token = memory.token;
#ifdef TRUST_FROM_RECEIPT
    client[c].reply_worth = left;
#else
    client[c].reply_worth = (left > way -> left - way : 0);
#endif
    no_resurrection = !HAS(ended, memory.lease);
    if
    :: DURABLE -> printf(" left=%d leaves\n", left); acknowledge(c)
    :: else -> printf(" left=%d waits\n", left); client[c].reply = parked
    fi;
    assert(no_resurrection)
}

/* The grantor takes a request. It stays on its way: it may come again. */

inline take_acquire(c) {
    printf("acquire client=%d attempt=%d:", c, client[c].ask_attempt);
    if
    :: HAS(memory.known, ASKED(c)) && memory.lease == ASKED(c) ->
        printf(" granted token=%d", memory.token);      /* the present, never the old reply */
        promise(c, client[c].ask_attempt, client[c].ask_age)
    :: HAS(memory.known, ASKED(c)) && memory.lease != ASKED(c) -> printf(" lost\n")
    :: !HAS(memory.known, ASKED(c)) && memory.lease != 0 -> printf(" held\n")
    :: !HAS(memory.known, ASKED(c)) && memory.lease == 0 -> grant(c)
    fi
}

inline grant(c) {
    memory.counter++;
    memory.lease = ASKED(c);
    memory.token = memory.counter;
    memory.ttl = TTL;
    memory.known = memory.known | BIT(ASKED(c));
    left = TTL;
    dirty = true;
    tokens_rise = (memory.token > newest);
    an_attempt_is_granted_once = !HAS(acked, ASKED(c));
    exclusion_by_server_time = (owed[1 - c] == 0);
    printf(" granted token=%d", memory.token);
    promise(c, client[c].ask_attempt, client[c].ask_age);
    assert(tokens_rise);
    assert(an_attempt_is_granted_once);
    assert(exclusion_by_server_time)
}

/* A renewal never shortens. It is written down only if a restart would otherwise give back less than it promised. */
inline take_renewal(c) {
    printf("renew client=%d attempt=%d ttl=%d:", c, client[c].say_attempt, client[c].say_ttl);
#ifdef RENEWAL_REVIVES
    if
    :: memory.lease == 0 && HAS(memory.known, SAID(c)) && client[c].token == memory.counter ->
        memory.lease = SAID(c); memory.token = memory.counter; memory.ttl = TTL; dirty = true
    :: else
    fi;
#endif
    if
    :: memory.lease == SAID(c) ->
        left = (client[c].say_ttl > left -> client[c].say_ttl : left);
#ifndef GROWTH_NOT_WRITTEN
        if
        :: client[c].say_ttl > memory.ttl -> memory.ttl = client[c].say_ttl; dirty = true
        :: else
        fi;
#endif
        printf(" renewed");
        promise(c, client[c].say_attempt, client[c].say_age)
    :: else -> printf(" lost\n")
    fi
}

inline end_lease() {
    memory.lease = 0;
    memory.token = 0;
    memory.ttl = 0;
    left = 0;
    dirty = true
}

inline take_release(c) {
    printf("release client=%d attempt=%d:", c, client[c].say_attempt);
    if
    :: memory.lease == SAID(c) -> printf(" released\n"); end_lease(); owed[c] = 0
    :: else -> printf(" lost\n")
    fi
}

/* The store asks the grantor which token is the live one, at the moment when the write arrives there. */
inline take_write() {
    printf("write token=%d:", write_token);
    if
#ifdef STORE_DOES_NOT_CHECK
    :: true ->
#else
    :: memory.lease != 0 && memory.token == write_token ->
#endif
        printf(" accepted\n");
        no_stale_write = (write == memory.lease);
        assert(no_stale_write)
    :: else -> printf(" refused\n")
    fi
}

inline copy(from, to) {
    to.lease = from.lease;
    to.token = from.token;
    to.ttl = from.ttl;
    to.counter = from.counter;
    to.known = from.known
}

inline let_go(c) {
    if
    :: client[c].reply == parked -> acknowledge(c)
    :: else
    fi
}

/* All that changed becomes durable as one batch, then the replies leave that waited for it. A crash between the two
   is the same as the loss of the replies. */
inline commit() {
    printf("commit\n");
    copy(memory, disk);
    dirty = false;
    ended = ended | (memory.known & ~BIT(memory.lease));
#ifdef DEADLINE_NOT_REBASED
    kept = left;
#endif
    let_go(0);
    let_go(1)
}

inline forget_parked(c) {
    if
    :: client[c].reply == parked -> forget_reply(c)
    :: else
    fi
}

inline crash() {
    printf("crash\n");
    up = false;
    dirty = false;
    left = 0;
    memory.lease = 0; memory.token = 0; memory.ttl = 0; memory.counter = 0; memory.known = 0;
    forget_parked(0);
    forget_parked(1)
}

/* The live lease gets the largest ttl ever promised for it, from now on: too long is safe, too short is not. */
inline restart() {
    copy(disk, memory);
    up = true;
    left = memory.ttl;
#ifdef DEADLINE_NOT_REBASED
    left = kept;
    if
    :: memory.lease != 0 && left == 0 -> end_lease()
    :: else
    fi;
#endif
#ifdef LEASES_DROPPED
    end_lease();
#endif
#ifdef TOKENS_NOT_DURABLE
    memory.counter = 0;
#endif
#ifdef ATTEMPTS_NOT_DURABLE
    memory.known = 0;
#endif
    printf("restart: lease=%d left=%d\n", memory.lease, left)
}

/* A client */

/* The same attempt again, as often as it likes: a lost reply must not leave the scope held and nobody knowing. */
inline send_acquire(c) {
    printf("send_acquire client=%d attempt=%d\n", c, client[c].attempt);
    client[c].state = asking;
    client[c].ask = true;
    client[c].ask_attempt = client[c].attempt;
    client[c].ask_age = 0
}

inline send_renewal(c, ttl) {
    printf("send_renew client=%d ttl=%d\n", c, ttl);
    client[c].say = renewing;
    client[c].say_attempt = client[c].attempt;
    client[c].say_ttl = ttl;
    client[c].say_age = 0
}

/* Trust ends before the release leaves. */
inline send_release(c) {
    printf("send_release client=%d\n", c);
    client[c].state = over;
    client[c].trust = 0;
    client[c].say = releasing;
    client[c].say_attempt = client[c].attempt;
    client[c].say_ttl = 0;
    client[c].say_age = 0
}

inline send_write(c) {
    printf("send_write client=%d token=%d\n", c, client[c].token);
    write = ID(c, client[c].attempt);
    write_token = client[c].token
}

inline next_attempt(c) {
    printf("next_attempt client=%d\n", c);
    client[c].attempt++;
    client[c].state = idle;
    client[c].token = 0
}

/* A reply is believed only while its attempt runs: what is over stays over, whatever still arrives. */
inline receive(c) {
    printf("receive client=%d:", c);
    if
#ifdef LATE_REPLY_BELIEVED
    :: client[c].reply_worth > 0 && client[c].reply_attempt == client[c].attempt ->
#else
    :: client[c].reply_worth > 0 && client[c].reply_attempt == client[c].attempt && client[c].state != over ->
#endif
        client[c].state = holding;
        client[c].token = client[c].reply_token;
        client[c].trust = (client[c].reply_worth > client[c].trust -> client[c].reply_worth : client[c].trust);
        printf(" believed token=%d\n", client[c].token);
        exclusion_of_belief = (client[1 - c].trust == 0);
        assert(exclusion_of_belief)
    :: else -> printf(" ignored\n")
    fi
}

/* The network loses */

inline forget_reply(c) {
    client[c].reply = none;
    client[c].reply_attempt = 0;
    client[c].reply_token = 0;
    client[c].reply_worth = 0
}

inline forget_ask(c) {
    client[c].ask = false;
    client[c].ask_attempt = 0;
    client[c].ask_age = 0
}

inline forget_say(c) {
    client[c].say = none;
    client[c].say_attempt = 0;
    client[c].say_ttl = 0;
    client[c].say_age = 0
}

inline forget_write() {
    write = 0;
    write_token = 0
}

/* Time */

inline age(c) {
    LESS(owed[c]);
    LESS(client[c].trust);
    if
    :: client[c].state == holding && client[c].trust == 0 -> client[c].state = over
    :: else
    fi;
    if
    :: client[c].ask -> MORE(client[c].ask_age)
    :: else
    fi;
    if
    :: client[c].say == renewing -> MORE(client[c].say_age)
    :: else
    fi;
#ifndef TRUST_FROM_RECEIPT
    LESS(client[c].reply_worth);
    if
    :: client[c].reply == leaving && client[c].reply_worth == 0 -> forget_reply(c)    /* nobody would believe it */
    :: else
    fi
#endif
}

/* The server may be down, or too slow to notice the tick: then its time stands, and everybody else's goes on. */
inline tick(noticed) {
    if
    :: noticed && left == 1 -> printf("tick: lapsed"); end_lease(); LESS(kept)
    :: noticed && left != 1 -> printf("tick:"); LESS(left); LESS(kept)
    :: !noticed -> printf("tick_unnoticed:")
    fi;
    age(0);
    age(1);
    printf(" believed=%d,%d\n", client[0].trust > 0, client[1].trust > 0)
}

/* Who may do what, and when */

active [CLIENTS] proctype holder() provided (HEALTHY) {
    do
    :: d_step { (client[_pid].state == idle || client[_pid].state == asking) &&
                !(client[_pid].ask && client[_pid].ask_age == 0) -> send_acquire(_pid) }
#ifndef NO_GIVING_UP
    :: d_step { client[_pid].state == asking -> printf("give_up client=%d\n", _pid); client[_pid].state = over }
#endif
    :: d_step { client[_pid].state == over && client[_pid].attempt < ATTEMPTS - 1 -> next_attempt(_pid) }
    :: d_step { client[_pid].state == holding -> send_renewal(_pid, TTL) }
    :: d_step { client[_pid].state == holding -> send_renewal(_pid, GROWN) }
    :: d_step { client[_pid].state == holding -> send_release(_pid) }
    :: d_step { client[_pid].state == holding -> send_write(_pid) }
    :: d_step { client[_pid].reply == leaving -> receive(_pid) }
    od
}

#define C (_pid - CLIENTS)

active [CLIENTS] proctype network() provided (HEALTHY) {
    do
    :: d_step { up && client[C].ask && memory.counter < TOKENS -> take_acquire(C) }
    :: d_step { up && client[C].say == renewing -> take_renewal(C) }
    :: d_step { up && client[C].say == releasing -> take_release(C) }
#ifndef NO_LOSS
    :: d_step { client[C].ask -> printf("lose_acquire client=%d\n", C); forget_ask(C) }
    :: d_step { client[C].say != none -> printf("lose_say client=%d\n", C); forget_say(C) }
    :: d_step { client[C].reply == leaving -> printf("lose_reply client=%d\n", C); forget_reply(C) }
#endif
    od
}

active proctype store() provided (HEALTHY) {
    do
    :: d_step { up && write != 0 -> take_write() }
    :: d_step { write != 0 -> printf("lose_write\n"); forget_write() }
    od
}

active proctype server() provided (HEALTHY) {
    do
    :: d_step { up && dirty -> commit() }
    :: d_step { up -> tick(true) }
#ifndef NO_CRASHES
    :: d_step { up -> crash() }
    :: d_step { !up -> restart() }
#endif
#ifndef NO_STALLS
    :: d_step { tick(false) }
#endif
    od
}
