"""How often rare things happened: a run in which they never did proves nothing."""

from collections import Counter
from collections.abc import Iterator

from chaos_judge import History, lapsed
from chaos_log import Line
from chaos_nemesis import LINK_FAULTS

PARTITIONS = ("black hole", "requests dropped", "answers dropped", "requests held back", "answers held back")


def situations(history: History) -> Iterator[str]:
    yield from (f"fault: {fault['fault']}" for fault in history.faults)
    yield from ("link fault" for fault in history.faults if fault["fault"] in LINK_FAULTS)
    yield from ("partition" for fault in history.faults if fault["fault"] in PARTITIONS)
    yield from (f"turn: {turn['turn']}" for turn in history.turns)
    yield from ("LeaseLost" for turn in history.turns if turn["turn"].startswith("LeaseLost"))
    yield from (f"{call['op']} {call['out']}" for call in history.calls)
    yield from ("lapse" for event in history.events if event.event_type == "lease_released" and lapsed(event))
    yield from ("write accepted" if write["accepted"] else "stale write refused" for write in history.writes)
    yield from ("act that a pause carried past the trust" for act in history.acts if act["done"] > act["until"])
    yield from ("granted after waiting" for call in history.grants().values() if call["waited_ms"] > 0)
    yield from ["body that began after the trust had ended"] * history.missed
    yield from ("repeated attempt" for attempts in _attempts(history).values() if attempts > 1)
    for pause in history.faults:
        if pause["fault"] == "pause":
            yield from _pauses(history, pause)


def _attempts(history: History) -> Counter[tuple[str, str]]:
    return Counter((call["p"], call["idem"]) for call in history.calls if call["op"] == "acquire")


def _pauses(history: History, pause: Line) -> Iterator[str]:
    """What the pause met."""
    for belief in history.beliefs:
        if belief.client == pause["who"] and belief.since < pause["at"] < belief.until:
            yield "pause while holding"
            if pause["ended"] > belief.until:
                yield "pause that outlived the trust"
    for call in history.calls:
        if call["p"] == pause["who"] and call["call"] < pause["at"] < (call["ret"] or call["call"]):
            yield f"pause during {call['op']}"
