"""The heap in pages of 2 MB, once there is a lot of it.

A renewal touches a handful of objects, somewhere among those of all leases. Where each of them is, the processor looks
up page by page; with a million leases in pages of 4 KB these tables are too large for its caches, too. Linux offers
large pages to whoever asks for them, and the allocator of Python does not.
"""

import asyncio
import ctypes
import logging
import re
from collections.abc import Callable, Iterator
from mmap import PAGESIZE
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Final

log = logging.getLogger("openintent.server")

LOOK_S: Final = 2.0
GROWTH_BYTES: Final = 64 * 2**20  # with few leases a server hardly has as much, and would gain nothing
PAGE_BYTES: Final = 2 * 2**20
REST: Final = 5  # times as long as it took to move a page
MADV_COLLAPSE: Final = 25  # <linux/mman.h>; from Linux 6.1 on

OFFER: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
MAPPINGS: Final = Path("/proc/self/smaps")
SIZES: Final = Path("/proc/self/statm")

# Addresses, rights, offset, device, file's number: private memory without a file behind it. Then how much is in use.
ANONYMOUS: Final = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(?:\[heap\])?\n(?:[A-Z]\w+:.*\n)*?Rss: +(\d+) kB$", re.MULTILINE
)


def are_offered() -> bool:
    """Not if whoever runs the machine has said never, and only by a Linux that is new enough."""
    if not OFFER.exists() or "[never]" in OFFER.read_text():
        return False
    refused: int = ctypes.CDLL(None).madvise(None, ctypes.c_size_t(0), MADV_COLLAPSE)  # nothing: is it known at all?
    return not refused


def resident_bytes() -> int:
    return int(SIZES.read_text().split()[1]) * PAGESIZE


def heap_pages(mappings: str) -> Iterator[int]:
    """The addresses of large pages in plain memory that is mostly in use. The stack of a thread is not."""
    for match in ANONYMOUS.finditer(mappings):
        begin, end = int(match[1], 16), int(match[2], 16)
        if end - begin <= 2 * 1_024 * int(match[3]):
            yield from range(-(-begin // PAGE_BYTES) * PAGE_BYTES, end - PAGE_BYTES + 1, PAGE_BYTES)


def gather(stopping: Event) -> None:
    """Put all of the heap into large pages. What is in some already costs nothing; what cannot be is left as it is."""
    madvise = ctypes.CDLL(None).madvise  # lets go of the interpreter's lock meanwhile
    for address in heap_pages(MAPPINGS.read_text()):
        began_s = perf_counter()
        madvise(ctypes.c_void_p(address), ctypes.c_size_t(PAGE_BYTES), MADV_COLLAPSE)
        # Some ms for 2 MB that have to be moved, in which the loop may have to wait for its memory.
        if stopping.wait(REST * (perf_counter() - began_s)):
            return


class LargePages:
    """Looks now and then whether the process has grown, and if so has its heap gathered, by a thread."""

    def __init__(
        self, resident_bytes: Callable[[], int] = resident_bytes, gather: Callable[[Event], None] = gather
    ) -> None:
        self._resident_bytes = resident_bytes
        self._gather = gather
        self._stopping = Event()
        self._gathered_bytes = 0  # when it was last gathered, or less since then
        self._gathering: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if are_offered():
            self._turn()

    async def stop(self) -> None:
        self._stopping.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._gathering is not None:
            await asyncio.wait([self._gathering])

    def _turn(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._turn)
        self.look()

    def look(self) -> None:
        resident_bytes = self._resident_bytes()
        # What was let go of and is taken again comes in small pages.
        self._gathered_bytes = min(self._gathered_bytes, resident_bytes)
        if self._gathering is None and resident_bytes - self._gathered_bytes >= GROWTH_BYTES:
            self._gathered_bytes = resident_bytes
            self._gathering = asyncio.get_running_loop().run_in_executor(None, self._gather, self._stopping)
            self._gathering.add_done_callback(self._done)

    def _done(self, gathering: asyncio.Future[None]) -> None:
        self._gathering = None
        if not gathering.cancelled() and (error := gathering.exception()) is not None:
            log.warning("large pages failed error=%s", error)
