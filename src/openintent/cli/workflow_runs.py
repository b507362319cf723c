"""`openintent workflow run` and `openintent workflow status`; `openintent run` is the first of them."""

import asyncio
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from openintent.cli import show
from openintent.cli.options import Seconds, Session, asks_server, pairs
from openintent.cli.report import FAILED, MISUSED, Problem, printable, say
from openintent.cli.signals import Leaving
from openintent.errors import NotFoundError

if TYPE_CHECKING:
    from openintent.cli.workflow_live import Wish
    from openintent.workflows.spec import Workflow

TTL_S_MIN: Final = 1.0
TTL_S_DEFAULT: Final = 15.0

EXIT_CODES = """
\b
Exit codes:
  0   the run is completed
  1   it failed, or was refused; the message says why
  2   the file is not right, or the command line is wrong
  69  no server can be reached, or it did not answer
  130 interrupted with Ctrl-C; the run stays, and the same command goes on with it
"""


@click.command(
    "run",
    epilog=f"""\b
Examples:
  openintent run pipeline.yaml
  openintent run pipeline.yaml --input day=2026-01-01 --input 'rows=[1, 2]'
  openintent run pipeline.yaml --with agents:Fetcher --with agents.py:Processor
  openintent run pipeline.yaml --new --detach
  openintent workflow run pipeline.yaml --json | jq .step.status

\b
A file means one run: started again, it goes on with it, also from another machine, and also while
another command runs it. Then this one stands by, and goes on if the other dies. --new begins anew.
{EXIT_CODES}""",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--run", "run_id", metavar="ID", help="The run to begin or go on with.  [default: that of the file]")
@click.option("--new", is_flag=True, help="Begin a new run, whatever has become of others.")
@click.option("--input", "inputs", multiple=True, metavar="KEY=VALUE", help="What the run is started with; repeatable.")
@click.option("--with", "agents", multiple=True, metavar="MODULE:CLASS", help="Run this agent here too; repeatable.")
@click.option(
    "--ttl",
    type=Seconds(min=TTL_S_MIN),
    default=TTL_S_DEFAULT,
    show_default=True,
    metavar="SECONDS",
    help="How long the run may stand still when this command dies.",
)
@click.option("--detach", is_flag=True, help="Leave it to a process in the background.")
@asks_server(agent=False)
def run_command(
    session: Session,
    file: Path,
    run_id: str | None,
    new: bool,
    agents: tuple[str, ...],
    detach: bool,
    **options: Any,
) -> None:
    """Run a workflow file to its end, and show how far it is.

    Its steps are assigned to agents, which may run anywhere; --with runs them here.
    """
    if new and run_id is not None:
        raise click.UsageError("--run and --new exclude each other")
    workflow = _workflow_in(file, as_json=session.as_json)
    named = run_id or (f"{workflow.run_id}-{os.urandom(2).hex()}" if new else workflow.run_id)
    wish = _wish(workflow, named, agents, **options)
    _is_there(session, named)
    with Leaving():
        if detach:
            _detach(session, file, wish, agents)
        else:
            _run(session, file, wish)


# The table of commands knows it by this name.
run = run_command


def _wish(workflow: "Workflow", run_id: str, agents: tuple[str, ...], *, inputs: tuple[str, ...], ttl: float) -> "Wish":
    from openintent.cli.agent_loading import class_named  # noqa: PLC0415  # the client, which `--help` need not load
    from openintent.cli.workflow_live import Wish  # noqa: PLC0415  # as above

    # Without inputs, a run that is there already goes on with those that it has.
    return Wish(workflow, run_id, pairs(inputs, "--input") or None, tuple(map(class_named, agents)), ttl)


def _run(session: Session, file: Path, wish: "Wish") -> None:
    from openintent.cli import workflow_live  # noqa: PLC0415  # as above

    try:
        progress = asyncio.run(workflow_live.run(session, wish))
    except KeyboardInterrupt:
        if not session.as_json:
            say(f"the run {wish.run_id} stays; go on with: openintent run {file} --run {wish.run_id}")
        raise
    if progress.status != "completed":
        sys.exit(FAILED)


def _is_there(session: Session, run_id: str) -> bool:
    """Asked without patience: who sits here wants to hear at once that no server is there."""
    from openintent.client import calls  # noqa: PLC0415  # as above

    try:
        session.api.ask(calls.get_intent(run_id))
    except NotFoundError:
        return False
    return True


# What is run


def _workflow_in(file: Path, *, as_json: bool) -> "Workflow":
    from openintent.workflows.checking import load_file  # noqa: PLC0415  # as above

    try:
        checked = load_file(file)
    except OSError as failure:
        raise Problem(f"{file}: {failure.strerror}", exit_code=MISUSED, code="bad_file") from None
    if checked.workflow is not None:
        return checked.workflow
    *others, last = [f"{checked.name}:{problem}" for problem in checked.errors]
    for line in others if not as_json else ():
        click.echo(printable(line), err=True)
    error = {"code": "bad_file", "message": f"{file} is not right", "hint": None}
    told = {"error": error, "problems": [asdict(problem) for problem in checked.errors]}
    hint = f"more about it: openintent workflow validate {file}"
    raise Problem(last, hint, exit_code=MISUSED, code="bad_file", response=told)


# In the background


def _detach(session: Session, file: Path, wish: "Wish", agents: tuple[str, ...]) -> None:
    from openintent.cli import workflow_live  # noqa: PLC0415  # as above

    asyncio.run(workflow_live.begin(session, wish))
    log = Path(f"{wish.run_id}.log")
    process = _start(session, log, ["--run", wish.run_id, "--ttl", str(wish.ttl_s)], file, agents)
    if session.as_json:
        show.print_json({"run_id": wish.run_id, "pid": process.pid, "log": str(log)})
        return
    click.echo(f"run {wish.run_id} goes on in process {process.pid}; its log is {log}")
    click.echo(f"  openintent workflow status {wish.run_id} --watch")


def _start(
    session: Session, log: Path, options: list[str], file: Path, agents: tuple[str, ...]
) -> "subprocess.Popen[bytes]":
    words = ["run", str(file), *options, "--json", *(word for each in agents for word in ("--with", each))]
    key = session.api.api_key  # not among the words, which others on this machine can read
    environment = {**os.environ, "OPENINTENT_URL": session.api.url, **({"OPENINTENT_API_KEY": key} if key else {})}
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603  # ourselves; it outlives us, that is what it is for
            [sys.executable, "-m", "openintent.cli", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


# Looking


@click.command(
    "status",
    epilog="""\b
Examples:
  openintent workflow status pipeline.yaml
  openintent workflow status resilient-pipeline-1f0c9a3e --watch
  openintent workflow status pipeline.yaml --json | jq '.steps[] | {name, status}'

\b
Exit codes:
  0   shown; with --watch, the run has ended
  1   there is no such run, or it was refused; the message says why
  2   the file is not right, or the command line is wrong
  69  no server can be reached, or it did not answer
""",
)
@click.argument("target", metavar="FILE|RUN")
@click.option("--watch", is_flag=True, help="Go on showing it until it ends.")
@asks_server(agent=False)
def status_command(session: Session, target: str, watch: bool) -> None:
    """Show how far a run is: that of a file, or the one of this id.

    With --json it prints one object; with --watch one for each change, and the whole at the end.
    """
    from openintent.cli import workflow_live  # noqa: PLC0415  # as above

    is_file = target.endswith((".yaml", ".yml")) or Path(target).is_file()
    run_id = _workflow_in(Path(target), as_json=session.as_json).run_id if is_file else target
    if not _is_there(session, run_id):
        hint = f"begin it with: openintent run {target}" if is_file else "openintent intents lists all there is"
        raise Problem(f"there is no run {run_id}", hint, code="not_found")
    asyncio.run(workflow_live.look(session, run_id, watch=watch))
