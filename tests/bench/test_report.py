"""The report says what was measured, and what was not."""

import json

import pytest
import report
import results
import wanted
from results import Outcome, Results, Row
from workloads import ALL


def row(peer, size, at=0, **figures):
    found = Row(peer, size, at)
    for values in zip(*figures.values(), strict=True):
        found.add(dict(zip(figures, values, strict=True)))
    return found


def outcome(name, *rows, notes=()):
    again = f'make bench ARGS="--only {name}"'
    return Outcome(name, "2026-11-16", 2, 5.0, 61.0, again, "3.11.2 (optimized)", list(rows), list(notes))


@pytest.fixture
def measured():
    at = "256 connections"
    cycle = outcome(
        "cycle",
        row("ours", "1 connection", 1, per_s=[900, 1_000], p50_ms=[0.5, 0.4], p99_ms=[1, 1]),
        row("redis", "1 connection", 1, per_s=[1_800, 2_000], p50_ms=[0.25, 0.2], p99_ms=[1, 1]),
        row("ours", at, 256, per_s=[20_000, 30_000], p50_ms=[5, 6], p99_ms=[9, 9]),
        row("etcd", at, 256, per_s=[1_000, 1_000], p50_ms=[50, 60], p99_ms=[90, 90]),
        notes=["left out: somebody"],
    )
    found = Results({"processor": "2 x something"}, {}, {})
    found.outcomes["cycle"] = cycle
    return found


def seen(measured, what):
    return next(promise for promise in wanted.ALL if promise.what.startswith(what)).look(measured)


def test_every_workload_has_a_section(measured):
    text = report.text(measured)
    assert [workload.title for workload in ALL.values() if f"\n## {workload.title}\n" not in text] == []
    assert text.count("Not measured yet") == len(ALL) - 1


def test_a_table_has_medians_ratios_and_the_command_that_repeats_it(measured):
    text = report.text(measured)
    assert "| 256 connections | etcd, JSON gateway | 1,000 | 55 | 90 | 25.0x |" in text
    assert "| 256 connections | openintent-leases | 25,000 ±20% | 5.50 | 9 |  |" in text
    how = "Measured on 2026-11-16 with Python 3.11.2 (optimized): 2 times 5 s for each row, 61 s in all."
    assert f'{how} Again: `make bench ARGS="--only cycle"`' in text
    assert "- left out: somebody" in text


def test_errors_are_those_of_the_worst_round(measured):
    measured.outcomes["cycle"].rows[0].figures["errors"] = [0, 3]
    assert "| 1 connection | openintent-leases | 950 | 0.45 | 1 | 3 |  |" in report.text(measured)


def test_a_row_keeps_its_rounds_in_order():
    assert row("ours", "x", per_s=[1, 2, 3]).figures == {"per_s": [1, 2, 3]}


def test_a_promise_is_judged_by_rounds_that_were_next_to_each_other(measured):
    assert seen(measured, "cycle, against etcd") == wanted.Seen("25.0x (rounds 20.0x to 30.0x)", holds=True)
    assert seen(measured, "one connection") == wanted.Seen("2.00x (rounds 2.00x to 2.00x)", holds=False)


def test_what_was_not_measured_is_no_promise_kept(measured):
    assert seen(measured, "cycle, against the public server") is None
    assert "| cycle, against the public server at its best | at least 150x | not measured |  |" in report.text(measured)


def test_growth_is_judged_by_its_worst(measured):
    sizes = {100: 1_000.0, 10_000: 790.0, 1_000_000: 950.0}
    rows = [row("ours", f"renew, {held:,} held", held, per_s=[rate]) for held, rate in sizes.items()]
    measured.outcomes["growth"] = outcome("growth", *rows, row("ours", "cycle, 100 held", 100, per_s=[5.0]))
    assert seen(measured, "renew, up to 1,000,000 held") == wanted.Seen(
        "79% of the first at least (renew, 10,000 held)", holds=False
    )
    assert seen(measured, "cycle, up to 1,000,000 held") is None


def test_growth_that_ended_early_shows_nothing(measured):
    sizes = (0, 100_000, 1_000_000)
    rows = [row("ours", f"cycle, {events:,} events", events, per_s=[1_000]) for events in sizes]
    measured.outcomes["growth"] = outcome("growth", *rows)
    assert seen(measured, "cycle, up to 10,000,000 events") == wanted.Seen(
        "100% of the first at least (cycle, 1,000,000 events); no more than 1,000,000 were tried", holds=False
    )


def test_a_lost_renewal_under_overload_is_a_promise_broken(measured):
    first = row("ours", "1,000 holders", per_s=[300], errors=[0], done=[36_000], overloaded=[0], retry_after=[0])
    later = row("ours", "1,000 holders", per_s=[300], errors=[1], done=[35_999], overloaded=[0], retry_after=[0])
    flood = row("ours", "1,024 that acquire", per_s=[9_000], errors=[0], overloaded=[70], retry_after=[70])
    measured.outcomes["overload"] = outcome("overload", first, flood, later, flood)
    assert seen(measured, "renewals under overload") == wanted.Seen("1 lost of 71,999", holds=False)
    assert seen(measured, "refusals under overload").holds


def test_an_engine_is_judged_beside_what_it_does_by_itself_and_beside_sqlite(measured):
    rates = {"SQLite": [10_000, 12_000], "etcd": [6_000, 5_000], "Redis": [5_000, 9_000]}
    rows = [row("ours", f"cycle on {engine}", 256, per_s=found) for engine, found in rates.items()]
    rows.append(row("etcd", "cycle on etcd", 256, per_s=[2_000, 2_500]))
    measured.outcomes["engines"] = outcome("engines", *rows)
    assert seen(measured, "on etcd") == wanted.Seen("2.50x (rounds 2.00x to 3.00x)", holds=False)
    assert seen(measured, "on Redis") == wanted.Seen("0.62x (rounds 0.50x to 0.75x)", holds=True)
    assert seen(measured, "on PostgreSQL") is None


def test_results_are_read_as_they_were_written(measured, tmp_path):
    measured.write(tmp_path / "results.json")
    assert results.read(tmp_path / "results.json") == measured
    assert results.read(tmp_path / "none.json") == Results()


def test_the_report_comes_with_its_plots(measured, tmp_path):
    page = report.write(measured, tmp_path)
    assert "](benchmarks/cycle.svg)" in page.read_text(encoding="utf-8")
    assert (tmp_path / "benchmarks" / "cycle.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_report_names_no_path_of_the_machine(measured):
    assert "/tmp" not in report.text(measured)  # noqa: S108  # looked for, not used
    assert json.dumps(measured.machine)


def test_others_are_taken_at_their_best(measured):
    for conns, rate in ((32, 500), (64, 800), (256, 0)):
        measured.outcomes["cycle"].rows.append(row("postgres", f"{conns} connections", conns, per_s=[rate, rate]))
    found = seen(measured, "cycle, against PostgreSQL")
    assert found == wanted.Seen("31.2x (rounds 25.0x to 37.5x); its best is with 64 connections", holds=True)


def test_workloads_with_bars_are_drawn(measured, tmp_path):
    quiet = row("ours", "nothing lapses", per_s=[2_000], p50_ms=[1], p99_ms=[2], max_ms=[9])
    measured.outcomes["expiry"] = outcome("expiry", quiet)
    text = report.write(measured, tmp_path).read_text(encoding="utf-8")
    assert "](benchmarks/expiry.svg)" in text
    assert "longest ms" in (tmp_path / "benchmarks" / "expiry.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(("refused", "timed"), [(0, 0), (70, 69)])
def test_refusals_that_nobody_saw_or_that_give_no_time_show_nothing(measured, refused, timed):
    flood = row("ours", "1,024 that acquire", overloaded=[refused], retry_after=[timed])
    measured.outcomes["overload"] = outcome("overload", flood)
    assert not seen(measured, "refusals under overload").holds
