"""Whether each assignment had its effect once, and no handler worked on without its lease. Violations are sentences.

What the agents wrote down is on the boot clock; the server's log has dates. The two are compared by what the clocks
of the machine differed by during the run, at least: somebody may have set the wall clock meanwhile.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from chaos_judge import MS, SLACK_NS, History, acts_are_in_turn, grants_exclude, store_is_fenced
from chaos_log import Line
from fleet_agent import RESULT, ROLE

from openintent.agents import record as records
from openintent.client.values import Event, Intent

# Who wakes may go on before it is stopped: its keeper and its handler are threads of a process that has just begun to
# run again, beside all the others.
WAKING_NS = 250 * MS

# Who was frozen or cut off is back at work after this, if there is any: it asks again after at most 5 s.
RETURN_NS = 10_000 * MS


@dataclass
class Known:
    """An assignment, as the server has it in the end."""

    intent: Intent
    events: list[Event]

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.event_type == kind]


@dataclass
class Verdict:
    violations: list[str] = field(default_factory=list)
    waking: list[Line] = field(default_factory=list)  # deeds of those who had just been woken


def judged(history: History, known: list[Known], wall_less_boot_ns: int) -> Verdict:
    verdict = Verdict()
    late = set()
    for act in late_acts(history, known, wall_less_boot_ns):
        late.add(id(act))
        if woken(act, history):
            verdict.waking.append(act)
        else:
            verdict.violations.append(f"{act['p']}: {act['act']} under {act['tok']}, whose lease had ended: {act}")
    verdict.violations += goes_on_after_waking(verdict.waking)
    in_time = History(acts=[act for act in history.acts if id(act) not in late and act["act"] in DEEDS])
    checks = [
        acts_are_in_turn(in_time),
        store_is_fenced(history, {}),
        attempts_begin_once(history),
        notes_are_kept(history),
        all_return_to_work(history),
        *(effect_is_there_once(each, history) for each in known),
        *(grants_exclude(History(events=each.events)) for each in known),
    ]
    verdict.violations += [violation for check in checks for violation in check]
    return verdict


# What is done when

DEEDS = ("begin", "step", "end")
COMES_TO_AN_END = ("end", "insists")


def late_acts(history: History, known: list[Known], wall_less_boot_ns: int) -> Iterator[Line]:
    """What a handler did after its lease had ended, and that it was still running then."""
    ends: dict[tuple[str, int], int] = {}
    for each in known:
        for event in each.of("lease_released"):
            at = round(event.created_at.timestamp() * 1e9) - wall_less_boot_ns
            ends[each.intent.id, event.payload["token"]] = at
    asking: dict[tuple[str, int], bool] = {}
    for act in sorted(history.acts, key=lambda act: act["done"]):
        key = act["res"], act["tok"]
        # A plain handler that waits for an answer cannot be stopped. It does nothing meanwhile, and looks before it
        # does anything.
        waited = asking.get(key, False) and act["act"] not in DEEDS
        asking[key] = act["act"] == "asks" or (waited and act["act"] == "stopped")
        ended_at = ends.get(key)
        if ended_at is not None and act["at"] > ended_at + SLACK_NS and not waited:
            yield act


def woken(act: Line, history: History) -> bool:
    """Whether its process could not run when the lease ended, and has only just begun to run again."""
    pauses = (fault for fault in history.faults if fault["fault"] == "pause" and fault["who"] == act["p"])
    return any(pause["at"] <= act["at"] <= pause["ended"] + WAKING_NS for pause in pauses)


def goes_on_after_waking(acts: list[Line]) -> Iterator[str]:
    """Its step may be due at the very moment at which it wakes; the next thing is that it is stopped."""
    steps = Counter((act["p"], act["tok"]) for act in acts if act["act"] == "step")
    yield from (
        f"{agent} did {count} steps under {token} after waking" for (agent, token), count in steps.items() if count > 1
    )


def all_return_to_work(history: History) -> Iterator[str]:
    """Whoever was frozen or cut off takes its part again, as long as there is work and nothing else befalls it."""
    begun: dict[str, list[int]] = defaultdict(list)
    for act in history.acts:
        if act["act"] == "begin":
            begun[act["p"]].append(act["at"])
    last = max((at for each in begun.values() for at in each), default=0)
    for fault in history.faults:
        since, until = fault["ended"], fault["ended"] + RETURN_NS
        spared = not any(since <= other["at"] <= until for other in history.faults if other["who"] == fault["who"])
        worked = any(since <= at <= until for at in begun[fault["who"]])
        if fault["fault"] != "kill" and until < last and spared and not worked:
            yield f"{fault['who']} did nothing in the {RETURN_NS / 1e9:.0f} s after {fault}"


# What comes of it


def effect_is_there_once(known: Known, history: History) -> Iterator[str]:
    """In the order of the log: one result, under the lease that was alive, and the word that it is done with it."""
    title, live, results = known.intent.title, 0, []
    for event in known.events:
        if event.event_type == "lease_acquired":
            live = event.payload["token"]
        elif event.event_type == "lease_released":
            live = 0
        elif event.event_type == "state_patched":
            written = {patch["path"]: patch["value"] for patch in event.payload["patches"]}
            results += [written[RESULT]] if RESULT in written else []
            for path, value in written.items():
                if path in (RESULT, records.path(ROLE)) and value["token"] != live:
                    yield f"{title}: {path} was set under {value['token']} while {live} was alive"
            if RESULT in written and written.get(records.path(ROLE), {}).get("status") != "done":
                yield f"{title}: a result without the word that it is done"
        elif event.event_type == "status_changed" and not live:
            yield f"{title}: {event.payload['new_status']} under no lease"
    yield from _one_result(known, results, history)


def _one_result(known: Known, results: list[Line], history: History) -> Iterator[str]:
    title, record = known.intent.title, records.read(known.intent.state, ROLE)
    if len(results) != 1:
        yield f"{title}: {len(results)} results {results}"
    if (record.status, known.intent.status, len(known.of("status_changed"))) != ("done", "completed", 1):
        yield f"{title}: {record.status} and {known.intent.status}, after {known.of('status_changed')}"
    ended = {(act["res"], act["tok"], act["attempt"]) for act in history.acts if act["act"] in COMES_TO_AN_END}
    for result in results:
        if (known.intent.id, result["token"], result["attempt"]) not in ended:
            yield f"{title}: no handler has come to the end that the state tells of: {result}"
        if (record.token, record.attempt) != (result["token"], result["attempt"]):
            yield f"{title}: {result} is done, and the record is of another attempt: {record}"


def attempts_begin_once(history: History) -> Iterator[str]:
    begun: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for act in sorted((act for act in history.acts if act["act"] == "begin"), key=lambda act: int(act["at"])):
        begun[act["res"]].append((act["tok"], act["attempt"]))
    for intent_id, runs in begun.items():
        tokens, attempts = zip(*runs, strict=True)
        if any(list(each) != sorted(set(each)) for each in (tokens, attempts)):
            yield f"{intent_id}: its handlers began as (token, attempt) {runs}"


def notes_are_kept(history: History) -> Iterator[str]:
    """Whoever goes on does so from the last note that its predecessors were told is saved, or a later one."""
    acts = sorted(history.acts, key=lambda act: (act["tok"], act["done"]))
    saved: dict[str, int] = {}
    for act in acts:
        if act["act"] == "begin" and act["n"] < saved.get(act["res"], 0):
            yield f"{act['p']} began {act['res']} with step {act['n']}, and {saved[act['res']]} was saved"
        elif act["act"] == "saved":
            saved[act["res"]] = max(act["n"], saved.get(act["res"], 0))
