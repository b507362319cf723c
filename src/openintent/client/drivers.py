"""The two ways of answering a flow. All that differs between the clients below their methods is in this file."""

import asyncio
import random
import time
from typing import Any, Protocol, TypeVar

from openintent.client.calls import Call
from openintent.client.flows import Ask, Flow, Pause
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
    return random.uniform(pause.at_least_s, pause.at_most_s)  # noqa: S311  # it spreads clients, it hides nothing


def run(flow: Flow[T], transport: Transport) -> T:
    def answer(ask: Ask) -> Any:
        if isinstance(ask, Call):
            return ask.parse(transport.exchange(ask))
        if isinstance(ask, Pause):
            return time.sleep(drawn_s(ask))
        return boot_s()

    try:
        ask = next(flow)
        while True:
            try:
                got = answer(ask)
            except Exception as exc:  # noqa: BLE001  # the flow decides which it can handle
                ask = flow.throw(exc)
            else:
                ask = flow.send(got)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        flow.close()


async def run_async(flow: Flow[T], transport: AsyncTransport) -> T:
    async def answer(ask: Ask) -> Any:
        if isinstance(ask, Call):
            return ask.parse(await transport.exchange(ask))
        if isinstance(ask, Pause):
            return await asyncio.sleep(drawn_s(ask))
        return boot_s()

    try:
        ask = next(flow)
        while True:
            try:
                got = await answer(ask)
            except Exception as exc:  # noqa: BLE001  # the flow decides which it can handle
                ask = flow.throw(exc)
            else:
                ask = flow.send(got)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        flow.close()
