"""What the programs of this folder share: how they are told, how they time, how they tell."""

import argparse
import json
import resource
import time
from collections.abc import Callable
from typing import Any

WARMUP_S = 0.5


def arguments(about: str | None, *parts: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about)
    if parts:
        parser.add_argument("part", choices=parts)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warmup", type=float, default=WARMUP_S)
    parser.add_argument("--conns", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=1)
    parser.add_argument("--readers", type=int, default=100)
    parser.add_argument("--scope", default="bench")
    parser.add_argument("--ttl", type=float, default=5.0)
    return parser.parse_args()


class Window:
    """The measured time: it begins after a warm-up, and what ends outside of it does not count."""

    def __init__(self, seconds: float, warmup_s: float = WARMUP_S) -> None:
        self.seconds = seconds
        self.begins_s = time.perf_counter() + warmup_s
        self.ends_s = self.begins_s + seconds
        self.samples_ms: list[float] = []
        self._used_s = processor_s()
        self._made_s = time.perf_counter()

    @property
    def over(self) -> bool:
        return time.perf_counter() >= self.ends_s

    def add(self, began_s: float, ended_s: float | None = None) -> None:
        ended_s = time.perf_counter() if ended_s is None else ended_s
        if self.begins_s <= ended_s < self.ends_s:
            self.samples_ms.append((ended_s - began_s) * 1_000)

    def figures(self, **more: float) -> dict[str, float]:
        ordered = sorted(self.samples_ms) or [0.0]
        count = len(self.samples_ms)
        took_s = time.perf_counter() - self._made_s
        return {
            "per_s": count / self.seconds,
            "cycle_us": sum(ordered) / len(ordered) * 1_000,
            "p50_ms": ordered[len(ordered) // 2],
            "p99_ms": ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)],
            "errors": 0.0 if count else 1.0,
            "client_cpu": (processor_s() - self._used_s) / took_s,
        } | more


def processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def tell(what: Any) -> None:
    print(json.dumps(what), flush=True)


def repeat(window: Window, act: Callable[[], None]) -> None:
    while not window.over:
        began_s = time.perf_counter()
        act()
        window.add(began_s)
