"""What `self` offers in an agent.

One rule for all of it: in `async` code it is awaited, in plain code it is not.
"""

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from openintent.agents import record as records
from openintent.agents.links import Links, in_event_loop
from openintent.agents.record import Record
from openintent.agents.settings import Settings
from openintent.agents.work import Work, current, leading
from openintent.client import AsyncOpenIntentClient, OpenIntentClient
from openintent.client.coordinator import CoordinatorLease
from openintent.client.lease import Lease
from openintent.client.values import Intent
from openintent.errors import ConflictError, LeaseConflictError

if TYPE_CHECKING:
    from openintent.agents.runner import Runner

T = TypeVar("T")

TELL_TRIES_MAX: Final = 100  # while others write to the same intent all the time


class LeaseFace:
    """`async with self.lease(...)` in async code, `with self.lease(...)` in plain code."""

    def __init__(self, links: Links, named: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        self._links = links
        self._named = named
        self._options = options
        self._block: Any = None

    async def __aenter__(self) -> Lease:
        self._block = self._links.awaited.lease(*self._named, **self._options)
        lease: Lease = await self._block.__aenter__()
        return lease

    async def __aexit__(self, *raised: object) -> None:
        await self._block.__aexit__(*raised)

    def __enter__(self) -> Lease:
        if in_event_loop():
            raise RuntimeError("in async code it is `async with self.lease(...)`")
        self._block = self._links.plain.lease(*self._named, **self._options)
        lease: Lease = self._block.__enter__()
        return lease

    def __exit__(self, *raised: object) -> None:
        self._block.__exit__(*raised)


class AgentBase:
    """What `@Agent` makes of a class. Whoever wants its types checked derives from it; else nothing need be said."""

    settings: ClassVar[Settings]

    def __init__(self, base_url: str | None = None, api_key: str | None = None) -> None:
        self._given = (base_url, api_key)

    # Who it is

    @property
    def _links(self) -> Links:
        """Made when it is first needed: a class with an `__init__` of its own need not call ours."""
        made: Links | None = self.__dict__.get("_made_links")
        if made is None:
            base_url, api_key = self.__dict__.get("_given", (None, None))
            settings = self.settings
            made = self.__dict__["_made_links"] = Links(
                base_url or settings.base_url, api_key or settings.api_key, settings.new_instance_id()
            )
        return made

    @property
    def agent_id(self) -> str:
        """Who this instance is to the server."""
        return self._links.agent_id

    @property
    def client(self) -> Any:
        """The client for the code that asks: one to be awaited in async code, else a plain one."""
        return self._links.awaited if in_event_loop() else self._links.plain

    @property
    def async_client(self) -> AsyncOpenIntentClient:
        return self._links.awaited

    @property
    def sync_client(self) -> OpenIntentClient:
        return self._links.plain

    # What it works on

    @property
    def work(self) -> Work:
        work = current.get()
        if work is None:
            raise RuntimeError("there is no work outside a handler for assignments")
        return work

    def lease(self, intent_id: str, scope: str = "*", ttl: float | None = None, **options: Any) -> LeaseFace:
        """A block under a lease that is kept alive; see `client.lease`. Without a `ttl` it has the agent's."""
        named = {"ttl", "ttl_seconds", "duration_seconds"} & options.keys() or ttl is not None
        return LeaseFace(self._links, (intent_id, scope, ttl if named else self.settings.lease_ttl), options)

    def checkpoint(self, note: Any) -> Any:
        """Save a note for whoever goes on with this assignment if this attempt does not end."""
        return self.client.report_progress(self.work.lease, note)

    def patch_state(self, intent_id: str, changes: Any, **options: Any) -> Any:
        """Change the intent's state, under the lease that the code works under. Records among the keys are left out."""
        wanted = records.besides(changes) if isinstance(changes, Mapping) else changes
        return self.client.patch_state(intent_id, wanted, **self._as_leader(options))

    def complete_intent(
        self, intent_id: str, final_state: Mapping[str, Any] | None = None, *, reason: str | None = None
    ) -> Any:
        return self._both(self._complete(intent_id, final_state, reason))

    def log(self, intent_id: str, message: str, **data: Any) -> Any:
        """Write a line into the intent's log."""
        return self.client.log_event(intent_id, "comment", {"message": message, **data})

    def delegate(self, intent_id: str, agent_id: str, payload: Any = None, **options: Any) -> Any:
        """Assign the intent to another agent, with a word to it: its handlers find it in `self.work.payload`.

        `LeaseConflictError` while that agent is at work on this very intent: the end of that would overwrite the word.
        """
        return self._both(self._delegate(intent_id, agent_id, payload, options))

    def record_decision(self, intent_id: str, decision_type: str, outcome: str, reasoning: str = "") -> Any:
        return self.client.record_decision(intent_id, decision_type, outcome, reasoning)

    def request_arbitration(self, intent_id: str, reason: str, context: Mapping[str, Any] | None = None) -> Any:
        return self.client.request_arbitration(intent_id, reason, context)

    # As a coordinator

    @property
    def leading(self) -> CoordinatorLease | None:
        """The lease that it leads under, while it does."""
        lease: CoordinatorLease | None = self.__dict__.get("_lead")
        return lease

    def leads(self, lease: CoordinatorLease | None) -> None:
        """For its runner: from here on it leads, or no longer."""
        self.__dict__["_lead"] = lease

    def _as_leader(self, options: dict[str, Any]) -> dict[str, Any]:
        """What is done because it leads is written under that lease, also when it is lost: then it is refused."""
        lease = leading.get()
        return options if lease is None or current.get() is not None else {"lease": lease, **options}

    # In both kinds of code

    def _complete(self, intent_id: str, final_state: Any, reason: str | None) -> Generator[Any, Any, Any]:
        client, why = self.client, reason or f"completed by {self.settings.name}"
        changes = records.besides(final_state or {})
        if changes:
            yield client.patch_state(intent_id, changes, **self._as_leader({}))
        intent = yield client.set_status(intent_id, None, "completed", why, **self._as_leader({}))
        return intent

    def _delegate(
        self, intent_id: str, agent_id: str, payload: Any, options: dict[str, Any]
    ) -> Generator[Any, Any, Any]:
        told, options = Record(from_agent=self.settings.name, payload=payload), self._as_leader(options)
        for left in reversed(range(TELL_TRIES_MAX)):
            try:
                yield from self._say(intent_id, agent_id, told, options)
                break
            except ConflictError as conflict:  # somebody has changed the intent just now; perhaps the agent has begun
                if conflict.current_version is None or "expected_version" in options or not left:
                    raise
        assignment = yield self.client.assign_agent(intent_id, agent_id)
        return assignment

    def _say(self, intent_id: str, agent_id: str, told: Record, options: dict[str, Any]) -> Generator[Any, Any, None]:
        intent = yield self.client.get_intent(intent_id)
        yield from self._refuse_if_at_work(intent, agent_id)
        patches = [records.patch(agent_id, told)]
        yield self.client.patch_state(intent_id, patches, **{"expected_version": intent.version, **options})

    def _refuse_if_at_work(self, intent: Intent, agent_id: str) -> Generator[Any, Any, None]:
        try:
            record = records.read(intent.state, agent_id)
        except records.BadRecord:
            return  # the word takes its place
        if record.status != "running":
            return
        leases = yield self.client.get_leases(intent.id, agent_id=record.holder)
        if any(lease.token == record.token for lease in leases):
            message = f"{record.holder} is still at work on its assignment to {intent.id}: delegate when that has ended"
            raise LeaseConflictError(message, code="lease_held", response={"current_holder": record.holder})

    def _both(self, steps: Generator[Any, Any, T]) -> Any:
        return _awaited(steps) if in_event_loop() else _plain(steps)

    # Running

    def run(self) -> None:
        """Work until SIGTERM or Ctrl-C; then finish what runs, give back what is held, and leave."""
        from openintent.agents.fleet import run_agents  # noqa: PLC0415  # it imports this module

        run_agents(self)

    async def close(self) -> None:
        """End its connections. Running does so at its end."""
        await self._links.close()

    async def run_async(self) -> None:
        """Work until it is cancelled or `stop()` is called."""
        await self.start().run()

    def start(self) -> "Runner":
        """Whoever runs this agent now, on this event loop."""
        from openintent.agents.runner import Runner  # noqa: PLC0415  # it imports this module

        runner = self.__dict__["_runner"] = Runner(self)
        return runner

    def stop(self) -> None:
        """Drain: take nothing new, and end when what runs has ended. From any thread."""
        runner = self.__dict__.get("_runner")
        if runner is not None:
            runner.stop()


async def _awaited(steps: Generator[Any, Any, T]) -> T:
    """A procedure whose every step is to be awaited."""
    try:
        asked = next(steps)
        while True:
            try:
                got = await asked
            except Exception as failed:  # noqa: BLE001  # the procedure is to deal with it, as in plain code
                asked = steps.throw(failed)
            else:
                asked = steps.send(got)
    except StopIteration as end:
        result: T = end.value
        return result


def _plain(steps: Generator[Any, Any, T]) -> T:
    try:
        got = next(steps)
        while True:
            got = steps.send(got)
    except StopIteration as end:
        result: T = end.value
        return result
