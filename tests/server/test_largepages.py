"""Memory in large pages: when it is asked for, and that it comes."""

import asyncio
import itertools
import mmap
import threading
from pathlib import Path

import pytest

from openintent.server import largepages
from openintent.server.largepages import GROWTH_BYTES, PAGE_BYTES, LargePages, are_offered, gather, heap_pages


def mapping(about, in_use_kb):
    """As Linux describes it, of 4 MB."""
    begin = 0x7F00_0000_0000
    sizes = f"Size: 4096 kB\nRss:    {in_use_kb:8} kB\nPss: 9999 kB\nAnonHugePages: 0 kB\n"
    return f"{begin:x}-{begin + 2**22:x} {about}\n{sizes}"


OTHER = mapping("r--p 00000000 fe:00 34       /usr/bin/python3.11", 4_096)

needs_large_pages = pytest.mark.skipif(not are_offered(), reason="this system offers no large pages")


class Process:
    """Grows as the test says, and counts how often it was gathered."""

    def __init__(self):
        self.resident_bytes = 0
        self.gathered = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self.pages = LargePages(lambda: self.resident_bytes, self.gather)

    def gather(self, stopping):
        assert self.go_on.wait(10)
        self.told_to_stop = stopping.is_set()
        self.gathered += 1

    async def look_at(self, resident_bytes):
        self.resident_bytes = resident_bytes
        self.pages.look()
        await self.pages.stop()


@pytest.fixture
def process():
    return Process()


@pytest.mark.parametrize(
    ("about", "in_use_kb", "is_heap"),
    [
        ("rw-p 00000000 00:00 0 ", 4_096, True),
        ("rw-p 00000000 00:00 0 ", 2_048, True),
        ("rw-p 00000000 00:00 0          [heap]", 4_096, True),
        ("rw-p 00000000 00:00 0 ", 2_044, False),  # such as the stack of a thread
        ("rw-p 00000000 00:00 0          [stack]", 4_096, False),
        ("r--p 00000000 00:00 0 ", 4_096, False),
        ("rw-p 00000000 fe:00 77         /var/lib/file", 4_096, False),
        ("rw-s 00000000 00:01 78         /dev/zero (deleted)", 4_096, False),
    ],
)
def test_only_private_memory_without_a_file_that_is_mostly_in_use_is_the_heap(about, in_use_kb, is_heap):
    found = list(heap_pages(OTHER + mapping(about, in_use_kb) + OTHER))
    assert found == ([0x7F00_0000_0000, 0x7F00_0020_0000] if is_heap else [])


def test_what_is_smaller_than_a_large_page_is_not_asked_for():
    plain = mapping("rw-p 00000000 00:00 0 ", 4_096)
    assert list(heap_pages(plain.replace("7f0000400000", "7f00001ff000"))) == []
    assert list(heap_pages(plain.replace("7f0000000000", "7f0000001000"))) == [0x7F00_0020_0000]


@needs_large_pages
def test_memory_of_this_process_is_put_into_large_pages():
    size = 16 * PAGE_BYTES
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = at // mmap.PAGESIZE % 251
        before = large_bytes()
        gather(threading.Event())
        assert large_bytes() - before >= size // 2
        assert all(memory[at] == at // mmap.PAGESIZE % 251 for at in range(0, size, mmap.PAGESIZE))


@needs_large_pages
def test_whoever_stops_need_not_wait_for_all_of_it():
    size = 16 * PAGE_BYTES
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.write(b"x" * size)
        before = large_bytes()
        stopping = threading.Event()
        stopping.set()
        gather(stopping)
        assert large_bytes() - before <= PAGE_BYTES


@needs_large_pages
def test_after_each_page_it_rests_for_five_times_as_long_as_that_took(monkeypatch):
    rests = []

    class NotStopping(threading.Event):
        def wait(self, timeout=None):
            rests.append(timeout)
            return False

    monkeypatch.setattr(largepages, "perf_counter", itertools.count().__next__)
    with mmap.mmap(-1, 4 * PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.write(b"x" * len(memory))
        gather(NotStopping())
    assert len(rests) >= 3
    assert set(rests) == {5}


@pytest.mark.anyio
async def test_a_process_that_grows_is_gathered_once_for_each_growth(process):
    for resident_bytes, gathered in [
        (GROWTH_BYTES - 1, 0),
        (GROWTH_BYTES, 1),
        (2 * GROWTH_BYTES - 1, 1),
        (2 * GROWTH_BYTES, 2),
        (9 * GROWTH_BYTES, 3),
        (9 * GROWTH_BYTES, 3),
    ]:
        await process.look_at(resident_bytes)
        assert process.gathered == gathered


@pytest.mark.anyio
async def test_memory_that_was_given_back_and_taken_again_is_gathered_again(process):
    await process.look_at(3 * GROWTH_BYTES)
    await process.look_at(GROWTH_BYTES)
    await process.look_at(2 * GROWTH_BYTES)
    assert process.gathered == 2


@pytest.mark.anyio
async def test_it_is_gathered_by_one_thread_at_a_time_and_stopping_waits_for_it(process):
    process.go_on.clear()
    for growth in (1, 2, 3):
        process.resident_bytes = growth * GROWTH_BYTES
        process.pages.look()
    stopping = asyncio.ensure_future(process.pages.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    process.go_on.set()
    await stopping
    assert process.gathered == 1
    assert process.told_to_stop
    await process.look_at(3 * GROWTH_BYTES)
    assert process.gathered == 2


@pytest.mark.anyio
async def test_a_failure_is_logged_and_it_is_tried_again_later(process, caplog):
    def fail(stopping):
        raise OSError("no maps here")

    process.pages = LargePages(lambda: process.resident_bytes, fail)
    await process.look_at(GROWTH_BYTES)
    await asyncio.sleep(0)
    assert "no maps here" in caplog.text
    await process.look_at(2 * GROWTH_BYTES)
    await asyncio.sleep(0)
    assert caplog.text.count("no maps here") == 2


@pytest.mark.anyio
@pytest.mark.parametrize("offer", ["always madvise [never]", None])
async def test_where_large_pages_are_not_offered_nobody_looks(process, monkeypatch, tmp_path, offer):
    path = tmp_path / "enabled"
    if offer is not None:
        path.write_text(offer)
    monkeypatch.setattr(largepages, "OFFER", path)
    process.resident_bytes = GROWTH_BYTES
    process.pages.start()
    await process.pages.stop()
    assert process.gathered == 0


@pytest.mark.anyio
async def test_it_looks_again_and_again_until_it_is_stopped(process, monkeypatch, tmp_path):
    (tmp_path / "enabled").write_text("always [madvise] never")
    monkeypatch.setattr(largepages, "OFFER", tmp_path / "enabled")
    monkeypatch.setattr(largepages, "LOOK_S", 0.001)
    looks = asyncio.Queue()
    process.pages = LargePages(lambda: looks.put_nowait(None) or 0, process.gather)
    process.pages.start()
    for _ in range(3):
        await asyncio.wait_for(looks.get(), 10)
    await process.pages.stop()


def large_bytes():
    rollup = Path("/proc/self/smaps_rollup").read_text()
    return 1024 * int(rollup.partition("AnonHugePages:")[2].split()[0])
