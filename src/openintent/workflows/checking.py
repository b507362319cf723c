"""From the text of a workflow file to a `Workflow`, or to everything that is wrong with it.

Errors and warnings are found in one go: whoever mends a file sees all of them. Only what cannot be read as YAML hides
what comes after it. A workflow that is returned is right in itself; whether its agents exist is not asked.
"""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from openintent.agents.record import Leasing
from openintent.retrying import Retry
from openintent.workflows import linking
from openintent.workflows.problems import TOP, Problem, Problems
from openintent.workflows.reading import BYTES_MAX, TOO_LONG, Entries, place_of, read
from openintent.workflows.spec import AgentNote, Step, Workflow
from openintent.workflows.tables import FILE, JITTER_DEFAULT, LIMITS

# A run keeps the workflow in the state of its intent, beside what it notes of the steps.
SPEC_BYTES_MAX: Final = LIMITS.state_bytes_max // 2


@dataclass(frozen=True, slots=True)
class Checked:
    name: str
    workflow: Workflow | None  # None if there is an error
    problems: list[Problem]  # from top to bottom

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.severity == "error"]


def load(text: str, *, name: str) -> Checked:
    """Check a file's text; `name` is what the file is called. Nothing that the text says makes it raise."""
    problems = Problems()
    root = read(text, problems)
    workflow = None
    if root is not None:
        values = FILE.take(root, "", problems)
        if isinstance(root, Entries):
            linking.check(root, problems)
        if not problems.has_errors:
            workflow = _sized(_workflow(values), problems)
    return Checked(name, workflow, problems.in_order())


def load_file(path: str | Path) -> Checked:
    """The same for a file. `OSError` if it cannot be read; the rest of a file that is too long is left unread."""
    with Path(path).open("rb") as file:
        raw = file.read(BYTES_MAX + 1)
    if len(raw) > BYTES_MAX:
        return Checked(str(path), None, [TOO_LONG])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        before = raw.removeprefix(codecs.BOM_UTF8)[: wrong.start].decode()
        place = place_of(before, len(before))
        message = f"the byte 0x{wrong.object[wrong.start]:02X} is not UTF-8"
        return Checked(str(path), None, [Problem(*place, "", message, "save the file as UTF-8")])
    return load(text, name=str(path))


# What is known to be right, as values


def _sized(workflow: Workflow, problems: Problems) -> Workflow | None:
    if len(msgspec.json.encode(workflow)) <= SPEC_BYTES_MAX:
        return workflow
    problems.error(TOP, "", f"the workflow takes more than {SPEC_BYTES_MAX} bytes", "split it into several")
    return None


def _workflow(values: Mapping[str, Any]) -> Workflow:
    info, governance = values["info"], dict(values.get("governance", {}))
    hours = governance.pop("timeout_hours", None)
    return Workflow(
        openintent=values["openintent"],
        **info,
        steps=tuple(_step(name, said) for name, said in values["workflow"].items()),
        agents={name: AgentNote(**said) for name, said in values.get("agents", {}).items()},
        governance={key: list(value) if isinstance(value, tuple) else value for key, value in governance.items()},
        timeout_seconds=None if hours is None else hours * 3600,
    )


def _step(name: str, said: Mapping[str, Any]) -> Step:
    plain = ("assign", "description", "depends_on", "inputs", "initial_state", "constraints", "skip_when")
    return Step(
        name=name,
        title=said.get("title", name),
        outputs=_outputs(said.get("outputs", {})),
        retry=_retry(said["retry"]) if "retry" in said else None,
        leasing=Leasing(**said["leasing"]) if "leasing" in said else None,
        timeout_seconds=said.get("timeout"),
        **{key: said[key] for key in plain if key in said},
    )


def _outputs(said: Any) -> dict[str, Any]:
    return dict.fromkeys(said, "any") if isinstance(said, tuple) else said


def _retry(said: Mapping[str, Any]) -> Retry:
    jitter = said.get("jitter", 0.0)
    return Retry(**{**said, "jitter": JITTER_DEFAULT * jitter if isinstance(jitter, bool) else jitter})
