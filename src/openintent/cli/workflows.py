"""`openintent workflow`: check a workflow file, look at it, run it."""

from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from openintent.cli import show
from openintent.cli.report import MISUSED, Problem, printable, reported

if TYPE_CHECKING:
    from openintent.workflows.checking import Checked
    from openintent.workflows.problems import Problem as Found

# What talks to a server is loaded when it is called: checking a file needs none.
ELSEWHERE: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("openintent.cli.workflow_runs", "run_command"),
    "status": ("openintent.cli.workflow_runs", "status_command"),
}
FORMATS: Final = ("text", "mermaid", "dot")
LINE_CHARS_MAX: Final = 200
TAB: Final = "\t"
STYLES: Final = {"error": "bold red", "warning": "bold yellow"}

EXIT_CODES = """
\b
Exit codes:
  0   the files are right
  1   a file cannot be read
  2   there are problems, or the command line is wrong
"""


class _Workflow(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, name = ELSEWHERE[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command


@click.group(cls=_Workflow)
def workflow() -> None:
    """Check workflow files, look at them, run them.

    A workflow file says which steps there are, which agent does each, and which step waits for which.
    """


# Validate


@workflow.command(
    epilog=f"""\b
Examples:
  openintent workflow validate pipeline.yaml
  openintent workflow validate --strict flows/*.yaml
  openintent workflow validate --json pipeline.yaml | jq .problems
{EXIT_CODES}"""
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Warnings count as problems.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for each file.")
@click.pass_context
def validate(context: click.Context, files: tuple[Path, ...], strict: bool, as_json: bool) -> None:
    """Say everything that is wrong with workflow files, and where.

    It needs no server. Whether the agents exist that a file names is not asked.
    """
    with reported(as_json=as_json):
        all_checked = [_checked(file) for file in files]
    for checked in all_checked:
        if as_json:
            show.print_json(_as_json(checked))
        else:
            _print(checked)
    if any(checked.problems if strict else checked.errors for checked in all_checked):
        context.exit(MISUSED)


def _checked(file: Path) -> "Checked":
    from openintent.workflows.checking import load_file  # noqa: PLC0415  # `--help` need not wait for it

    try:
        return load_file(file)
    except OSError as failure:
        raise Problem(f"{file}: {failure.strerror}") from None


def _as_json(checked: "Checked") -> dict[str, Any]:
    steps = None if checked.workflow is None else [step.name for step in checked.workflow.steps]
    return {
        "file": checked.name,
        "right": checked.workflow is not None,
        "steps": steps,
        "problems": [asdict(problem) for problem in checked.problems],
    }


def _print(checked: "Checked", *, err: bool = False) -> None:
    if show.is_terminal() and not err:
        _print_coloured(checked)
    else:
        _print_plain(checked, err=err)
    if checked.workflow is not None and not err:
        steps = len(checked.workflow.steps)
        shown = f"{checked.workflow.name}, {steps} step{'' if steps == 1 else 's'}"
        click.echo(printable(f"{checked.name}: right: {shown}"))


def _print_plain(checked: "Checked", *, err: bool) -> None:
    for problem in checked.problems:
        click.echo(printable(f"{checked.name}:{problem}"), err=err)
        if problem.hint:
            click.echo(printable(f"  hint: {problem.hint}"), err=err)


def _print_coloured(checked: "Checked") -> None:
    from rich.console import Console  # noqa: PLC0415  # only who looks pays for it
    from rich.text import Text  # noqa: PLC0415

    console, lines = Console(highlight=False, soft_wrap=True), _lines(Path(checked.name))
    for problem in checked.problems:
        parts = [
            (f"{checked.name}:{problem.line}:{problem.column}: ", "bold"),
            (f"{problem.severity}: ", STYLES[problem.severity]),
            (problem.message, ""),
        ]
        console.print(Text.assemble(*((printable(text), style) for text, style in parts)))
        console.print(Text(_excerpt(lines, problem), style="dim"), end="")
        if problem.hint:
            console.print(Text(printable(f"  hint: {problem.hint}"), style="green"))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError):  # it has changed since, or is no text
        return []


def _excerpt(lines: list[str], problem: "Found") -> str:
    """The line, and a mark below the place; nothing if there is no such line, or it is too long to help."""
    if problem.line > len(lines) or len(lines[problem.line - 1]) > LINE_CHARS_MAX:
        return ""
    number = f"{problem.line:5} | "
    mark = " " * (len(number) + problem.column - 1) + "^"
    return f"{number}{printable(lines[problem.line - 1].replace(TAB, ' '))}\n{mark}\n"


# Look at it


@workflow.command(
    epilog="""\b
Examples:
  openintent workflow graph pipeline.yaml
  openintent workflow graph --format dot pipeline.yaml | dot -Tsvg > pipeline.svg
  openintent workflow graph --format mermaid pipeline.yaml

\b
Exit codes:
  0   printed
  1   the file cannot be read
  2   there are problems in it, or the command line is wrong
"""
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True, help="For whom to draw it."
)
@click.pass_context
def graph(context: click.Context, file: Path, form: str) -> None:
    """Draw the steps of a workflow and what each waits for."""
    checked = _checked(file)
    if checked.workflow is None:
        _print(checked, err=True)
        context.exit(MISUSED)
    from openintent.workflows import graph as drawing  # noqa: PLC0415  # `--help` need not wait for it

    drawn = drawing.FORMATS[form](checked.workflow)
    click.echo("\n".join(map(printable, drawn.split("\n"))))


@workflow.command(
    epilog="""\b
Examples:
  openintent workflow schema > workflow.schema.json

\b
Then, as the first line of a workflow file, for editors that know it:
  # yaml-language-server: $schema=workflow.schema.json

\b
Exit codes:
  0   printed
  2   the command line is wrong
"""
)
def schema() -> None:
    """Print the format of workflow files as JSON Schema, for editors."""
    from openintent.workflows.schema import text  # noqa: PLC0415  # `--help` need not wait for it

    click.echo(text(), nl=False)
