"""After a term has ended: find out what became of its last commit, and begin another."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from openintent.engines.base import Engine, Head
from openintent.errors import EngineError
from openintent.grantor.leadership import Leadership
from openintent.grantor.parcels import Parcel, settle

log = logging.getLogger("openintent.grantor")

RETRY_S_MIN: Final = 0.1
RETRY_S_MAX: Final = 2.0
OUTCOME_PATIENCE_S: Final = 10.0


async def begin_again(
    engine: Engine,
    leadership: Leadership,
    begin_term: Callable[[Head], Awaitable[None]],
    is_over: Callable[[], bool],
    *,
    head: Head,
    uncertain: list[Parcel],
) -> None:
    """Try until a new term has begun or there is to be none. Parcels, which hang on `head`, are not kept for ever."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + OUTCOME_PATIENCE_S
    delay_s = RETRY_S_MIN
    happened: bool | None = None
    while not is_over():
        try:
            await engine.reopen()
            # Who leads now may lead for long; and what became of the commit, its head does not tell.
            seen = await leadership.take_over(lambda: settle(uncertain, happened=None))
            settle(uncertain, happened=leadership.outcome(head, known=happened))
            await begin_term(seen)
        except Exception as failure:  # whoever looks on no more, for whatever reason, can never lead
            log.warning("engine still fails error=%s", failure, exc_info=not isinstance(failure, EngineError))
        else:
            return
        happened = leadership.outcome(head, known=happened)
        if loop.time() > give_up_at:
            settle(uncertain, happened=None)
        await asyncio.sleep(delay_s)
        delay_s = min(delay_s * 2, RETRY_S_MAX)
