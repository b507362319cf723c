"""How a server is, in the text form that Prometheus and its likes read: `GET /metrics`.

All of it is counted where it happens anyway, and put together when somebody asks. Each server tells of itself. What
counts begins at nothing with its process, or where that is said, with its term: readers of such counts expect that.
"""

import resource
import sys
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from openintent.clock import wall_ms
from openintent.grantor.durations import BOUNDS_S, Durations
from openintent.version import __version__

if TYPE_CHECKING:
    from openintent.server.service import Service

MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"

_STARTED_S: Final = wall_ms() / 1_000
_STATM: Final = Path("/proc/self/statm")

Sample = tuple[str, float]  # what follows the name, and the value


class Metric(NamedTuple):
    name: str
    kind: Literal["gauge", "counter", "histogram"]
    says: str
    samples: list[Sample]


def text(service: "Service") -> bytes:
    return "".join(_shown(metric) for metric in metrics(service)).encode()


def metrics(service: "Service") -> Iterator[Metric]:
    yield _gauge("info", "Always 1; the version is in the label.", 1, label=f'{{version="{__version__}"}}')
    yield from _standing(service)
    yield from _held(service)
    yield from _done(service)
    yield from _commits(service)
    yield from _process()


def _standing(service: "Service") -> Iterator[Metric]:
    grantor = service.grantor
    yield _gauge("ready", "Whether it grants leases, or knows who does.", service.cluster.leader_url is not None)
    yield _gauge("leads", "Whether it is the one that grants.", grantor.leads)
    yield _gauge("term", "The term of whoever grants; it rises when that changes, or fails.", grantor.newest_term)
    yield _gauge("connections", "Open connections.", service.connections())
    yield _gauge("streams", "Open streams of events.", len(service.streams))


def _held(service: "Service") -> Iterator[Metric]:
    """Zero on a server that stands by: who leads knows."""
    books = service.grantor.books
    yield _gauge("leases", "Leases that are held now.", len(books.leases))
    yield _gauge("waiters", "Places in queues for leases.", len(books.waiters))
    yield _gauge("intents", "Intents that are known.", len(books.intents))
    yield _gauge("agents", "Agents that are registered.", len(books.agents))
    yield _gauge("token", "The newest fencing token.", books.token)


def _done(service: "Service") -> Iterator[Metric]:
    feed, books = service.grantor.feed, service.grantor.books
    yield _counted("answers_total", "Answers that left, by status.", "status", _by_status(service.answered))
    refused = service.overload.refused
    yield _counter("overload_refusals_total", "Requests that were refused because the server was behind.", refused)
    yield _counter("commands_total", "What the ledger decided in this term, reads too.", books.rev)
    yield _counter("events_total", "Events in the log since it was begun.", feed.seq)
    yield _counted("leases_ended_total", "Leases that ended, and it is durable, by how.", "how", feed.ended)


def _commits(service: "Service") -> Iterator[Metric]:
    commits, grantor = service.grantor.commits, service.grantor
    says = "How long the engine took to make a batch durable."
    yield Metric("openintent_commit_seconds", "histogram", says, list(_buckets(commits.took)))
    failures = "Batches that the engine refused, or did not tell what became of."
    yield _counter("commit_failures_total", failures, commits.failed)
    age_s = grantor.commit_age_ms / 1_000
    yield _gauge("commit_age_seconds", "How long the batch that is on its way has taken; 0 if there is none.", age_s)


def _process() -> Iterator[Metric]:
    """By the names that Prometheus has for every process. SQLite's process is another one."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime
    yield Metric("process_cpu_seconds_total", "counter", "Processor time, in all.", [("", seconds)])
    yield Metric("process_start_time_seconds", "gauge", "When it started, since 1970.", [("", _STARTED_S)])
    if sys.platform == "linux":
        resident = int(_STATM.read_bytes().split()[1]) * resource.getpagesize()
        yield Metric("process_resident_memory_bytes", "gauge", "Memory that it has.", [("", resident)])


def _gauge(name: str, says: str, value: float, *, label: str = "") -> Metric:
    return Metric(f"openintent_{name}", "gauge", says, [(label, value)])


def _counter(name: str, says: str, value: float) -> Metric:
    return Metric(f"openintent_{name}", "counter", says, [("", value)])


def _counted(name: str, says: str, label: str, counts: Mapping[Any, int]) -> Metric:
    samples: list[Sample] = [(f'{{{label}="{value}"}}', count) for value, count in sorted(counts.items())]
    return Metric(f"openintent_{name}", "counter", says, samples)


def _by_status(answered: list[int]) -> dict[int, int]:
    return {status: count for status, count in enumerate(answered) if count}


def _buckets(took: Durations) -> Iterator[Sample]:
    """Each counts all that took no longer."""
    so_far = list(accumulate(took.counts))
    for bound, count in zip((*map(repr, BOUNDS_S), "+Inf"), so_far, strict=True):
        yield f'_bucket{{le="{bound}"}}', count
    yield "_sum", took.sum_s
    yield "_count", so_far[-1]


def _shown(metric: Metric) -> str:
    lines = [f"# HELP {metric.name} {metric.says}", f"# TYPE {metric.name} {metric.kind}"]
    lines += [f"{metric.name}{rest} {float(value):.15g}" for rest, value in metric.samples]
    return "\n".join(lines) + "\n"
