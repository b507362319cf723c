"""What is proved, part by part: the tests that do it, and how large they run."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Part:
    """Some tests, and their sizes in a short and in a long run (see tests/proving.py)."""

    name: str
    tests: tuple[str, ...]
    short: Mapping[str, int] = field(default_factory=dict)
    long: Mapping[str, int] = field(default_factory=dict)

    def sizes(self, *, long: bool) -> Mapping[str, int]:
        return {**self.short, **self.long} if long else self.short


def _failover(engine: str) -> Part:
    """Three servers on one engine, and whatever can fail there."""
    names = ("", "_sdk", "_freezes", "_waiting", "_redis")
    return Part(
        f"failover on {engine}",
        (*(f"tests/e2e/test_failover{name}.py" for name in names), "-k", engine),
        short={"failover_engines": 4, "failover_rounds": 12, "failover_freezes": 10},
        long={
            "failover_rounds": 50,
            "failover_sdk_rounds": 50,
            "failover_sdk_workers": 16,
            "failover_freezes": 100,
            "failover_waiters": 1_000,
            "failover_readers": 200,
        },
    )


PARTS = (
    Part("rules", ("tests/core",), long={"examples": 600, "example_steps": 60}),
    Part(
        "simulation",
        ("tests/sim/test_simulation.py",),
        short={"histories": 2_000, "cluster_histories": 1_000, "processes": 2},
        long={"histories": 10_000, "cluster_histories": 10_000, "wall_seeds": 250},
    ),
    Part(
        "one order",
        ("tests/sim/test_linear.py::test_no_history_of_a_right_server_is_broken",),
        long={"linear_histories": 1_000, "linear_history_length": 1_000},
    ),
    Part("deliberate bugs", ("tests/mutants",), short={"mutants": 0}),
    Part("blind changes", ("tests/blind",), short={"blind": 150}, long={"blind": 500}),
    Part("model", ("tests/model",)),
    Part("races", ("tests/e2e/test_races.py",), long={"races": 1_000, "increments": 10_000}),
    Part("kill -9", ("tests/e2e/test_crash.py",), short={"kills": 100}, long={"kills": 1_000}),
    Part("crash points", ("tests/e2e/test_crash_points.py",), short={"crash_points": 60}, long={"crash_points": 0}),
    Part("power cuts", ("tests/power",), short={"power_cuts": 1_000}, long={"power_cuts": 4_000}),
    Part("failing disks", ("tests/e2e/test_fail_stop.py",)),
    Part("partitions and pauses", ("tests/e2e/test_chaos.py",), short={"chaos_rounds": 40}, long={"chaos_rounds": 200}),
    Part("clocks", ("tests/e2e/test_clocks.py",), long={"clock_lapses": 50, "clock_reboots": 12}),
    Part("waiting", ("tests/e2e/test_waiting.py",), long={"takeovers": 100}),
    *(_failover(engine) for engine in ("postgres", "etcd", "zookeeper", "redis")),
    Part("stop in time", ("tests/e2e/test_stop_in_time.py",), long={"freezes": 20, "cuts": 5}),
    Part(
        "black box on every engine",
        ("tests/e2e/test_races.py", "tests/e2e/test_crash.py", "tests/e2e/test_stop_in_time.py"),
        short={"black_box_engines": 6, "races": 20, "increments": 300, "kills": 5, "freezes": 2, "cuts": 1},
        long={"races": 200, "increments": 2_000, "kills": 100, "freezes": 10, "cuts": 3},
    ),
    Part(
        "a fleet of agents",
        ("tests/e2e/test_fleet.py", "tests/e2e/test_handlers_in_time.py"),
        short={"fleet_assignments": 60},
        long={"fleet_agents": 20, "fleet_assignments": 500, "fleet_ttl_ms": 2_000, "fleet_period_ms": 1_000},
    ),
    Part(
        "workflows",
        ("tests/workflows/test_takeover.py",),
        long={"workflow_kills": 50, "workflow_crash_points": 200},
    ),
    Part(
        "engines",
        ("tests/contract",),
        long={"engine_records": 100_000, "moved_records": 20_000, "postgres_cuts": 1_000},
    ),
    Part("without a server", ("tests/local",), short={"local_rounds": 25}, long={"local_rounds": 100}),
    Part(
        "streams",
        ("tests/e2e/test_streams.py",),
        long={"stream_readers": 200, "stream_kills": 20},
    ),
    Part(
        "bad requests",
        ("tests/server/test_generated_requests.py", "tests/server/test_bad_requests.py"),
        short={"bad_requests": 300},
        long={"bad_requests": 6_000, "good_requests": 500},
    ),
    Part(
        "the description",
        ("tests/e2e/test_schemathesis.py",),
        short={"schemathesis_bounds": 1},
        long={"schemathesis_examples": 60},
    ),
    Part("fuzzing", ("tests/fuzz",), short={"fuzz_inputs": 5_000}, long={"fuzz_inputs": 20_000}),
    Part("peers", ("tests/peers",), short={"peer_rounds": 10}, long={"peer_rounds": 30}),
)
