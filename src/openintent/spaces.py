"""The names of spaces, in which leases are held and logs are kept: what kind of thing, a colon, and its id."""

from typing import Final

INTENT_SPACE: Final = "intent:"
PLAIN_SPACE: Final = "space:"
PORTFOLIO_SPACE: Final = "portfolio:"
AGENT_SPACE: Final = "agent:"
COORDINATOR_SPACE: Final = "coordinator:"  # before the space of the intent or portfolio that is coordinated


def intent_space(intent_id: str) -> str:
    return INTENT_SPACE + intent_id


def intent_of(space: str) -> str | None:
    """The intent whose space this is, if it is one's."""
    return space[len(INTENT_SPACE) :] if space.startswith(INTENT_SPACE) else None


def portfolio_space(portfolio_id: str) -> str:
    return PORTFOLIO_SPACE + portfolio_id


def agent_space(agent_id: str) -> str:
    return AGENT_SPACE + agent_id


def agent_name_of(agent_id: str) -> str:
    """The agent that this is an instance of: what stands before the first `~`; whoever is no instance is itself."""
    return agent_id.partition("~")[0] or agent_id


def portfolio_of(space: str) -> str | None:
    """The portfolio whose space this is, if it is one's."""
    return space[len(PORTFOLIO_SPACE) :] if space.startswith(PORTFOLIO_SPACE) else None


def coordinator_space(*, intent_id: str | None, portfolio_id: str | None) -> str:
    """Where the one who coordinates an intent, or a portfolio, holds his lease."""
    assert (intent_id is None) != (portfolio_id is None)
    return COORDINATOR_SPACE + (portfolio_space(portfolio_id or "") if intent_id is None else intent_space(intent_id))


def spaces_of_intent(intent_id: str) -> tuple[str, str]:
    """Where parts of an intent are held, and where the whole of it is coordinated."""
    return (intent_space(intent_id), coordinator_space(intent_id=intent_id, portfolio_id=None))


def home_of(space: str) -> str:
    """The space in whose log its events stand: coordinating is a part of the story of what is coordinated."""
    return space.removeprefix(COORDINATOR_SPACE)
