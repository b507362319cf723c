"""`@Agent(...)` and `@Coordinator(...)`: what they make of a class."""

from collections.abc import Callable
from typing import Any, Final, TypedDict, TypeVar, Unpack

from openintent.agents.context import AgentBase
from openintent.agents.settings import Settings

T = TypeVar("T")

# What every agent has; a handler of such a name would hide it.
OURS: Final = frozenset(name for name in vars(AgentBase) if not name.startswith("__"))


class AgentArguments(TypedDict, total=False):
    """What may be said about an agent besides its name."""

    role: str | None  # assignments may be addressed to it, too: one of its agents takes each
    capabilities: Any  # for the registry: what it can do
    capacity: int  # how many assignments at a time
    lease_ttl: float  # seconds; an agent that dies keeps others waiting so long
    auto_heartbeat: bool  # its leases are kept alive while it works
    complete: bool  # a handled assignment completes its intent
    retry: Any  # `Retry(...)`: what becomes of an assignment whose handler raises or whose agent dies
    drain_seconds: float  # at the end, so long may go on what runs
    heartbeat_seconds: float
    poll_seconds: float
    instance: str | None  # tells this instance from the others; made up if not given
    intents: Any  # to be heard of, besides those that it is assigned to
    portfolios: Any
    metadata: Any
    base_url: Any
    api_key: str | None


def Agent(agent_id: str, **options: Unpack[AgentArguments]) -> Callable[[type[T]], type[T]]:  # noqa: N802  # the documents' name
    """Make a class an agent: `@Agent("fetcher")`. Its handlers are marked with `on_assignment` and its like."""
    return _making(Settings(name=agent_id, **options))


def Coordinator(  # noqa: N802  # as above
    agent_id: str,
    *,
    portfolio_id: str | None = None,
    intent_id: str | None = None,
    **options: Unpack[AgentArguments],
) -> Callable[[type[T]], type[T]]:
    """Make a class a coordinator: of all its instances one leads the portfolio or intent, and the others stand by."""
    if portfolio_id is None and intent_id is None:
        raise ValueError("a coordinator leads a portfolio or an intent: give portfolio_id or intent_id")
    return _making(Settings(name=agent_id, portfolio_id=portfolio_id, intent_id=intent_id, **options))


def _making(settings: Settings) -> Callable[[type[T]], type[T]]:
    def make(kind: type[T]) -> type[T]:
        _refuse_hiding(kind)
        bases = (kind,) if issubclass(kind, AgentBase) else (kind, AgentBase)
        told = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
        made: type[T] = type(kind.__name__, bases, {**told, "settings": settings})
        return made

    return make


def _refuse_hiding(kind: type) -> None:
    for base in kind.__mro__:
        hidden = sorted(OURS & vars(base).keys())
        if hidden and base is not AgentBase:
            raise TypeError(f"{base.__name__}.{hidden[0]} hides what every agent has by that name: call it otherwise")
