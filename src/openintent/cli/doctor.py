"""`openintent doctor`: what is the matter, and what to do about it."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from openintent.cli import show
from openintent.cli.report import FAILED, printable, reported

if TYPE_CHECKING:
    from openintent.cli.doctor_checks import Finding

COLOURS: Final[Mapping[str, str]] = {"ok": "green", "note": "yellow", "problem": "red"}
ABOUT_CHARS: Final = 11
WIDTH_MAX: Final = 110


@click.command(
    epilog="""\b
Examples:
  openintent doctor
  openintent doctor --port 9000 --engine sqlite:////var/lib/openintent/leases.db
  openintent doctor --engine etcd://etcd1:2379,etcd2:2379/openintent
  openintent doctor --json | jq '.findings[] | select(.level != "ok")'

\b
Exit codes:
  0   nothing is a problem; there may be notes
  1   something is a problem
  2   the command line is wrong
"""
)
@click.option("--host", help="Where a server would listen.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="The same.  [default: 8000]")
@click.option("--engine", metavar="URL", help="Where it would keep the ledger.  [default: sqlite:///openintent.db]")
@click.option("--config", metavar="FILE", help="The server's TOML file.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings, as JSON.")
@click.pass_context
def doctor(
    context: click.Context, host: str | None, port: int | None, engine: str | None, config: str | None, as_json: bool
) -> None:
    """Look for what could keep openintent from working here.

    Looks at Python and the package, the settings, the port, the database and its disk, the clock and the limits; one
    line each, and what to do. It changes nothing, and can be run beside a server. Give it the options that `openintent
    serve` is given. An engine on a server is asked as `serve` would ask it: if nothing of ours is there yet, its empty
    tables or nodes are made.
    """
    with reported(as_json=as_json):
        from openintent.cli.doctor_checks import examine  # noqa: PLC0415  # with the server's settings
        from openintent.cli.doctor_facts import gather  # noqa: PLC0415

        findings = examine(gather({"host": host, "port": port, "engine": engine}, config=config))
    problems = sum(finding.level == "problem" for finding in findings)
    if as_json:
        show.print_json({"ok": not problems, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            _print(finding)
        click.echo(_sum(findings))
    context.exit(FAILED if problems else 0)


def _print(finding: "Finding") -> None:
    level = click.style(finding.level.ljust(7), fg=COLOURS[finding.level], bold=finding.level != "ok")
    indent = " " * (7 + 2 + ABOUT_CHARS + 2)
    message = textwrap.fill(printable(finding.message), WIDTH_MAX, initial_indent=indent, subsequent_indent=indent)
    click.echo(f"{level}  {finding.about.ljust(ABOUT_CHARS)}  {message.lstrip()}")
    if finding.remedy is not None and finding.level != "ok":
        remedy = textwrap.fill(
            printable(finding.remedy), WIDTH_MAX, initial_indent=f"{indent}-> ", subsequent_indent=f"{indent}   "
        )
        click.echo(click.style(remedy, dim=True))


def _sum(findings: "Sequence[Finding]") -> str:
    problems, notes = (sum(finding.level == level for finding in findings) for level in ("problem", "note"))
    if not problems:
        return "Nothing is a problem." + (f" {_counted(notes, 'note')} above." if notes else "")
    return f"{_counted(problems, 'problem')}, {_counted(notes, 'note')}. Each line with -> says what to do."


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
