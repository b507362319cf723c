"""A workflow as a value: what the file says, once it is known to be right. Pure."""

import hashlib
import re
from typing import Any, Final

import msgspec

from openintent.agents.record import Leasing
from openintent.retrying import Retry

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
STEPS_MAX: Final = 1_000

# Where the value of an input comes from, besides another step.
TRIGGER: Final = "$trigger"  # what the run was started with
INITIAL_STATE: Final = "$initial_state"  # the step's own


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    title: str
    assign: str
    description: str = ""
    depends_on: tuple[str, ...] = ()
    inputs: dict[str, str] = {}  # by name: `step.output`, `$trigger.key` or `$initial_state.key`
    outputs: dict[str, Any] = {}  # by name: a type, or {type, required}
    initial_state: dict[str, Any] = {}
    constraints: Any = None
    skip_when: str | None = None
    retry: Retry | None = None
    leasing: Leasing | None = None
    timeout_seconds: float | None = None


class AgentNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the file tells of an agent. It is for people: who runs is who is there."""

    description: str = ""
    capabilities: tuple[str, ...] = ()


class Workflow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    steps: tuple[Step, ...]  # in the order of the file
    openintent: str = "1.0"
    version: str = "1.0.0"
    description: str = ""
    agents: dict[str, AgentNote] = {}
    governance: dict[str, Any] = {}  # the policy of every step's intent
    timeout_seconds: float | None = None

    @property
    def by_name(self) -> dict[str, Step]:
        return {step.name: step for step in self.steps}

    @property
    def fingerprint(self) -> str:
        """The same for files that say the same, however they are written."""
        written = msgspec.json.encode(self, order="sorted")
        return hashlib.blake2b(written, digest_size=4).hexdigest()

    @property
    def run_id(self) -> str:
        """The run that this file means if none is named: started again, it is gone on with."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:48] or "workflow"
        return f"{slug}-{self.fingerprint}"


def step_intent_id(run_id: str, step: str) -> str:
    return f"{run_id}.{step}"
