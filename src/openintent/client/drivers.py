"""The two ways of answering a flow. All that differs between the clients below their methods is in this file."""

import time
from typing import Any, Protocol, TypeVar

from openintent.chance import SPREAD
from openintent.client.calls import Call
from openintent.client.flows import Flow, Now, Pause
from openintent.client.replies import Reply
from openintent.clock import boot_s

T = TypeVar("T")


class Transport(Protocol):
    """One exchange. `Unavailable` if nothing can have happened, `OutcomeUnknown` if it left and no answer came."""

    def exchange(self, call: Call[Any]) -> Reply: ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    async def exchange(self, call: Call[Any]) -> Reply: ...

    async def close(self) -> None: ...


def drawn_s(pause: Pause) -> float:
    return SPREAD.uniform(pause.at_least_s, pause.at_most_s)


def run(flow: Flow[T], transport: Transport) -> T:
    try:
        ask = next(flow)
        while True:
            try:
                got = ask.parse(transport.exchange(ask)) if isinstance(ask, Call) else _answered(ask)
            except Exception as exc:  # noqa: BLE001  # the flow decides which it can handle
                ask = flow.throw(exc)
            else:
                ask = flow.send(got)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        flow.close()


def _answered(ask: Pause | Now) -> float | None:
    if isinstance(ask, Now):
        return boot_s()
    time.sleep(drawn_s(ask))
    return None


async def _sleep(pause: Pause) -> None:
    from asyncio import sleep  # noqa: PLC0415  # who has no event loop should not pay for one

    await sleep(drawn_s(pause))


async def run_async(flow: Flow[T], transport: AsyncTransport) -> T:
    try:
        ask = next(flow)
        while True:
            try:
                if isinstance(ask, Call):
                    got = ask.parse(await transport.exchange(ask))
                elif isinstance(ask, Now):
                    got = boot_s()
                else:
                    await _sleep(ask)
                    got = None
            except Exception as exc:  # noqa: BLE001  # the flow decides which it can handle
                ask = flow.throw(exc)
            else:
                ask = flow.send(got)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        flow.close()
