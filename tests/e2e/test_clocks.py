"""Clocks that step: the wall clock while leases are alive, and the boot clock from one start of the server to the next.

All times here are read outside of what is done to the clocks.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, time
from typing import Any

import pytest
from chaos_clocked import TTL_S
from proving import Figures, size
from rawhttp import Connect, Connection
from serverprocess import ServerProcess
from wallclock import WallClock

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.alone]

SEED = int(os.environ.get("SEED", "1"))
LAPSES = size("clock_lapses", 2)
JUMPS_PER_LAPSE = 5
JUMPS_S = (5, -5, 3_600, -3_600)
REBOOTS = size("clock_reboots", 4)
REBOOT_TTL_S = 1.2
BOUND_S = 2.0  # beyond the ttl, on a busy machine; 50 ms is the promise
ROUNDING_S = 0.05  # a server that does not run for a moment looks late at its clock
TICK_S = 0.002  # the server counts in milliseconds
DATE_S = 2.0  # dates that differ by less are the same
DATES_FOLLOW_S_MAX = 10.0


def without(missing: str) -> None:
    """A machine that cannot do this: a reason to skip, but not in CI."""
    pytest.fail(missing) if "CI" in os.environ else pytest.skip(missing)


@pytest.fixture
def wall(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path)


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path / "leases.db")
    if "wall" in request.fixturenames:
        process.wrapper = request.getfixturevalue("wall").wrapper
    try:
        process.start()
        yield process
    finally:
        process.kill()


class Keeper:
    """A program with the SDK that keeps a lease, under that wall clock too."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def hears(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), 20)
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def asked(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(b"?\n")
        return await self.hears()


@pytest.fixture
async def keeper(server: ServerProcess, wall: WallClock) -> AsyncIterator[Keeper]:
    program = [sys.executable, str(Path(__file__).with_name("chaos_clocked.py")), f"http://127.0.0.1:{server.port}"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*wall.wrapper, *program, stdin=pipe, stdout=pipe)
    yield Keeper(process)
    process.kill()
    await process.communicate()


async def acquired(agent: Connection, scope: str, ttl_s: float, wait_s: float = 0.0) -> dict[str, Any]:
    body = {"scope": scope, "ttl_seconds": ttl_s, "wait_seconds": wait_s}
    answer = await agent.call("POST", "/spaces/s/leases", body)
    assert answer.ok, answer
    return dict(answer.body)


async def lease_now(agent: Connection, lease_id: str) -> dict[str, Any]:
    answer = await agent.call("GET", f"/leases/{lease_id}")
    assert answer.ok, answer
    return dict(answer.body)


def date_s(shown: str) -> float:
    return datetime.fromisoformat(shown).replace(tzinfo=UTC).timestamp()


# The wall clock


@pytest.mark.timeout(60 + 5 * LAPSES)
async def test_a_wall_clock_that_jumps_moves_dates_and_no_lease(
    wall: WallClock, keeper: Keeper, connect: Connect, figures: Figures
):
    chance = random.Random(SEED)
    kept = await keeper.hears()
    holder, successor = connect("holder"), connect("successor")
    late_s = []
    for lapse in range(LAPSES):
        asked_at = monotonic()
        lease = await acquired(holder, "lapsing", TTL_S)
        granted_at = monotonic()
        waiting = asyncio.create_task(acquired(successor, "lapsing", 5, wait_s=10))
        for _ in range(JUMPS_PER_LAPSE):
            await asyncio.sleep(TTL_S / (JUMPS_PER_LAPSE + 2))
            wall.set(chance.choice(JUMPS_S))
            await no_lease_moved(wall, keeper)
            await has_what_is_left(holder, lease, asked_at=asked_at, granted_at=granted_at)
        following = await waiting
        assert monotonic() - asked_at >= TTL_S - TICK_S, "it lapsed before its time"
        late_s.append(monotonic() - granted_at - TTL_S)
        assert late_s[-1] < BOUND_S, "it lived longer than its time"
        assert following["token"] > lease["token"] > kept["token"]
        await successor.call("DELETE", f"/leases/{following['id']}")
        await dates_follow(wall, holder)
        figures.progress(lapse + 1, LAPSES)
    figures.add(
        "wall clock set while leases are alive",
        jumps=LAPSES * JUMPS_PER_LAPSE,
        leases_lapsed_early=0,
        leases_kept_too_long=0,
        kept_leases_lost=0,
        latest_lapse_ms=round(max(late_s) * 1_000),
        seed=SEED,
    )


async def no_lease_moved(wall: WallClock, keeper: Keeper) -> None:
    state = await keeper.asked()
    assert not state["lost"]
    assert 0 < state["remaining_s"] <= TTL_S
    assert abs(state["wall_s"] - time() - wall.step_s) < DATE_S, "the program does not see the clock that was set"


async def has_what_is_left(holder: Connection, lease: dict[str, Any], *, asked_at: float, granted_at: float) -> None:
    """It was granted between the two."""
    most_s = TTL_S - (monotonic() - granted_at)
    seen = await lease_now(holder, lease["id"])
    least_s = TTL_S - (monotonic() - asked_at)
    assert seen["status"] == "active" or least_s <= 0
    assert least_s - ROUNDING_S <= seen["remaining_seconds"] <= max(0, most_s) + ROUNDING_S


async def dates_follow(wall: WallClock, agent: Connection) -> None:
    """The server looks at the wall clock now and then; soon its dates are the new ones."""
    given_up_at = monotonic() + DATES_FOLLOW_S_MAX
    while True:
        lease = await acquired(agent, "dated", 5)
        await agent.call("DELETE", f"/leases/{lease['id']}")
        if abs(date_s(lease["acquired_at"]) - time() - wall.step_s) < DATE_S:
            return
        assert monotonic() < given_up_at, f"the server shows {lease['acquired_at']}"
        await asyncio.sleep(0.05)


# The boot clock


@pytest.fixture
def boot_clocks() -> list[list[str]]:
    """Commands under which the boot clock starts elsewhere: far ahead, and behind."""
    up_s = int(float(Path("/proc/uptime").read_text().split()[0]))
    commands = [f"unshare -T --monotonic {shift_s} --boottime {shift_s}".split() for shift_s in (100_000, -up_s // 2)]
    tried = subprocess.run([*commands[0], "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        without(f"no time namespaces here: {tried.stderr.strip()}")
    return commands


async def test_a_server_whose_boot_clock_starts_elsewhere_keeps_its_promises(
    server: ServerProcess, connect: Connect, boot_clocks: list[list[str]], figures: Figures
):
    holder, successor = connect("holder"), connect("successor")
    late_s = []
    for reboot in range(REBOOTS):
        asked_at = monotonic()
        lease = await acquired(holder, "s", REBOOT_TTL_S)
        holder.close()
        successor.close()
        clean = reboot // 2 % 2 == 0
        await asyncio.to_thread(server.stop if clean else server.kill)
        # A clean stop writes down what is left; after a kill all begins anew. Meanwhile the server's time stands still.
        left_s = REBOOT_TTL_S - (monotonic() - asked_at) if clean else REBOOT_TTL_S
        server.wrapper = boot_clocks[reboot % 2]
        await asyncio.to_thread(server.start)
        ready_at = monotonic()
        following = await acquired(successor, "s", 5, wait_s=10)
        assert monotonic() - server.started_at >= left_s - TICK_S, "shorter than promised"
        late_s.append(monotonic() - ready_at - REBOOT_TTL_S)
        assert late_s[-1] < BOUND_S, "longer than promised"
        assert following["token"] > lease["token"]
        await successor.call("DELETE", f"/leases/{following['id']}")
        figures.progress(reboot + 1, REBOOTS)
    figures.add(
        "restarts with a boot clock that starts elsewhere",
        restarts=REBOOTS,
        leases_shorter_than_promised=0,
        leases_longer_than_promised=0,
        latest_lapse_after_ready_ms=round(max(late_s) * 1_000),
    )
