"""Every key of a workflow file: its kind, its bounds, a sentence about it.

The checks, the JSON Schema for editors and the table in docs/workflow-files.md are all made from, or held to, this.
"""

from typing import Final, get_args

from openintent.agents import record
from openintent.model import Limits
from openintent.retrying import ATTEMPTS_MAX, DELAY_S_MAX, Backoff
from openintent.workflows.kinds import (
    Anything,
    Choice,
    Duration,
    Either,
    Flag,
    Key,
    Kind,
    ListOf,
    MapOf,
    Number,
    Record,
    Text,
)
from openintent.workflows.reading import ONCE_BOOLEANS, Entries, Items, Node, Scalar
from openintent.workflows.spec import NAME, STEPS_MAX

FORMAT: Final = "1.0"
TIMEOUT_S_MAX: Final = 30 * 86_400.0
EXPRESSION_CHARS_MAX: Final = 1_000
# A jitter of `true`: enough to part those that failed together, too little to be noticed by people.
JITTER_DEFAULT: Final = 0.1
LIMITS: Final = Limits()
OUTPUT_TYPES: Final = ("any", "string", "number", "integer", "boolean", "object", "array")

# Texts

TITLE: Final = Text(chars_min=1, chars_max=LIMITS.text_chars_max)
DESCRIPTION: Final = Text(chars_max=LIMITS.metadata_bytes_max // 4)  # a character takes four bytes at most
STEP_NAME: Final = Text(
    what="the name of a step",
    chars_min=1,
    chars_max=64,
    pattern=NAME.pattern,
    shape="a name has letters, digits, _ and -, and begins with a letter or a digit",
    is_name=True,
)
AGENT_NAME: Final = Text(
    what="the name of an agent or a role",
    chars_min=1,
    chars_max=LIMITS.name_chars_max // 2,  # the id of an instance has more behind it
    pattern=r"[^\s~](?:[^~\n\r]*[^\s~])?",
    shape="a name has no blank at its ends, and no ~, which stands before the id of an instance",
    is_name=True,
)
STATE_KEY: Final = Text(
    what="the name of a value",
    chars_min=1,
    chars_max=LIMITS.name_chars_max,
    pattern=rf"(?!{record.KEY}$)[^\s./~$][^\s./~]*",
    shape=f"a name has no blank, dot, slash or ~, and does not begin with $; {record.KEY} is kept for records",
    is_name=True,
)
SOURCE: Final = Text(
    what="where a value comes from",
    chars_min=3,
    chars_max=1_000,
    pattern=r"\$?[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[^\s./~]+)+",
    shape="write step.key, $trigger.key or $initial_state.key",
)
TYPE_NAME: Final = Text(what="the name of a type", chars_min=1, chars_max=64, pattern=NAME.pattern)
SCOPE: Final = Text(
    what="a scope",
    chars_min=1,
    chars_max=LIMITS.scope_chars_max,
    pattern=rf"[^/]*(?:/[^/]*){{0,{LIMITS.scope_segments_max - 1}}}",
    shape=f"a scope has at most {LIMITS.scope_segments_max} segments",
    is_name=True,
)
ERROR_NAME: Final = Text(what="the name of an error", chars_min=1, chars_max=LIMITS.name_chars_max, is_name=True)

# Numbers

TIMEOUT_S: Final = Number(0, TIMEOUT_S_MAX, above=True)
TTL_S: Final = Number(LIMITS.ttl_ms_min / 1000, LIMITS.ttl_ms_max / 1000)
DELAY_S: Final = Number(0, DELAY_S_MAX)
DELAY_MS: Final = Number(0, DELAY_S_MAX * 1000, per=1000)


def _is_flag(node: Node) -> bool:
    return isinstance(node, Scalar) and (isinstance(node.value, bool) or node.text in ONCE_BOOLEANS)


def _is_list(node: Node) -> bool:
    return isinstance(node, Items)


def _is_mapping(node: Node) -> bool:
    return isinstance(node, Entries)


# Parts of a step

OUTPUT: Final = Record(
    (
        Key("type", TYPE_NAME, "what it is; for people, nobody checks it"),
        Key("required", Flag(), "whether the step has failed without it; it has, unless this says false"),
    )
)
OUTPUTS: Final = Either(
    ((_is_list, ListOf(STATE_KEY)),),
    MapOf(STATE_KEY, Either(((_is_mapping, OUTPUT),), TYPE_NAME), hint="write a list of names, or name: type"),
)
RETRY: Final = Record(
    (
        Key("max_attempts", Number(1, ATTEMPTS_MAX, whole=True), "how often it is tried, the first time included"),
        Key("backoff", Choice(get_args(Backoff), {"fixed": "constant"}), "how the delay grows"),
        Key("base_delay_seconds", DELAY_S, "the delay after the first failure"),
        Key("max_delay_seconds", DELAY_S, "the longest delay"),
        Key("initial_delay_ms", DELAY_MS, "the same as base_delay_seconds", means="base_delay_seconds"),
        Key("max_delay_ms", DELAY_MS, "the same as max_delay_seconds", means="max_delay_seconds"),
        Key(
            "jitter",
            Either(((_is_flag, Flag()),), Number(0, 1)),
            f"the share of a delay that chance adds or takes away; true is {JITTER_DEFAULT}",
        ),
        Key("retryable_errors", ListOf(ERROR_NAME), "the names of errors worth another try; without it, all are"),
        Key("fallback_agent", AGENT_NAME, "who gets the step when its agent has used up its attempts"),
    )
)
LEASING: Final = Record(
    (
        Key("scope", SCOPE, "what the step's work must hold a lease on", required=True),
        Key("ttl", Duration(TTL_S), "the ttl of that lease"),
        Key("ttl_seconds", TTL_S, "the same as ttl", means="ttl"),
    ),
    {
        "strategy": "the scope says all",
        "wait_for_lock": "a step whose scope is held is tried again as its retry says",
    },
)
STEP: Final = Record(
    (
        Key("title", TITLE, "what people see; without it, the name"),
        Key("assign", AGENT_NAME, "the name of the agent or role that does it", required=True),
        Key("description", DESCRIPTION, "what is to be done"),
        Key("depends_on", ListOf(STEP_NAME, one_too=True), "the steps that must have ended well before it begins"),
        Key(
            "inputs",
            MapOf(STATE_KEY, SOURCE, hint="write name: step.key"),
            "values that it begins with: step.key, $trigger.key or $initial_state.key",
        ),
        Key("outputs", OUTPUTS, "values that it leaves: names, or name: type"),
        Key("initial_state", Anything(reserved=(record.KEY,)), "the state that its intent begins with"),
        Key(
            "constraints",
            Anything(list_too=True, bytes_max=LIMITS.metadata_bytes_max),
            "rules for the agent, as it understands them",
        ),
        Key(
            "skip_when",
            Text(what="an expression", chars_min=1, chars_max=EXPRESSION_CHARS_MAX),
            "skip it if this holds",
        ),
        Key("retry", RETRY, "how often it is tried again, and when"),
        Key("leasing", LEASING, "a lease that its work needs"),
        Key("timeout", Duration(TIMEOUT_S), "how long it may take, all attempts together"),
        Key("timeout_seconds", TIMEOUT_S, "the same as timeout", means="timeout"),
    ),
    {
        "access": "who may do what is said by the policy, under governance",
        "attachments": "files are not kept here",
        "context": "an agent reads the intent itself",
        "cost": "costs are not counted here",
        "cost_tracking": "costs are not counted here",
        "delegation": "an agent may delegate as it likes",
        "identity": "who an agent is, its key says",
        "llm": "which model an agent asks is its own affair",
        "memory": "memory is not kept here",
        "permissions": "who may do what is said by the policy, under governance",
        "plan": "an agent plans as it likes",
        "tools": "which tools an agent has is its own affair",
        "verification": "nobody verifies it here",
    },
)

# The rest of the file

INFO: Final = Record(
    (
        Key(
            "name",
            Text(chars_min=1, chars_max=LIMITS.name_chars_max, is_name=True),
            "what the workflow is called",
            required=True,
        ),
        Key("version", Text(chars_min=1, chars_max=64), "the version of this workflow"),
        Key("description", DESCRIPTION, "what it is for"),
    ),
    {"author": "nobody reads it", "tags": "nobody reads it", "license": "nobody reads it"},
)
AGENT: Final = Record(
    (
        Key("description", DESCRIPTION, "what it does; for people"),
        Key("capabilities", ListOf(Text(chars_min=1, chars_max=LIMITS.name_chars_max)), "what it can do; for people"),
    ),
    {
        "approval_required": "who may do what is said by the policy, under governance",
        "auto_heartbeat": "an agent's own settings count",
        "capacity": "an agent's own settings count",
        "default_permission": "who may do what is said by the policy, under governance",
        "identity": "who an agent is, its key says",
        "llm": "which model an agent asks is its own affair",
        "memory": "memory is not kept here",
        "role_id": "an agent's own settings count",
        "tools": "which tools an agent has is its own affair",
    },
)
GOVERNANCE: Final = Record(
    (
        Key("completion_mode", Choice(("auto", "require_approval", "quorum")), "what completing a step's intent takes"),
        Key("quorum_threshold", Number(0, 1, above=True), "the share of the assigned agents that a quorum is"),
        Key("write_scope", Choice(("any", "assigned_only")), "who may write to a step's state"),
        Key("allowed_agents", ListOf(AGENT_NAME), "the only agents that may act on a step; empty: all"),
        Key("require_status_reason", Flag(), "whether a change of status needs a reason"),
        Key("timeout_hours", Number(0, TIMEOUT_S_MAX / 3600, above=True), "how long the whole run may take"),
    ),
    {
        "access_review": "nobody asks for access here",
        "audit": "every change is in the log in any case",
        "escalation": "a step that cannot go on is parked for a person, and the run says so",
        "max_cost": "costs are not counted here",
        "max_cost_usd": "costs are not counted here",
        "require_approval": "completion_mode: require_approval is what there is",
    },
)
STEPS: Final = MapOf(STEP_NAME, STEP, entries_max=STEPS_MAX, entries_min=1, hint="write name: {assign: agent}")
FILE: Final = Record(
    (
        Key("openintent", Choice((FORMAT,)), "the version of the format", required=True),
        Key("info", INFO, "what the workflow is called", required=True),
        Key("workflow", STEPS, "the steps, by name", required=True),
        Key("agents", MapOf(AGENT_NAME, AGENT, hint="write name: {description: ...}"), "the agents, for people"),
        Key("governance", GOVERNANCE, "the policy of every step's intent"),
    ),
    {
        "access": "who may do what is said by the policy, under governance",
        "channels": "agents talk through the state and the log",
        "context": "an agent reads the intent itself",
        "coordinator": "the one who runs the workflow is its coordinator",
        "cost_tracking": "costs are not counted here",
        "delegation": "an agent may delegate as it likes",
        "identity": "who an agent is, its key says",
        "llm": "which model an agent asks is its own affair",
        "mcp": "which tools an agent has is its own affair",
        "memory": "memory is not kept here",
        "permissions": "who may do what is said by the policy, under governance",
        "plan": "an agent plans as it likes",
        "tools": "which tools an agent has is its own affair",
        "triggers": "a run is started by hand or by a program",
        "types": "the types of outputs are for people",
        "verification": "nobody verifies it here",
    },
)
SECTIONS: Final[dict[str, Kind]] = {
    "": FILE,
    "info": INFO,
    "workflow.STEP": STEP,
    "workflow.STEP.outputs.NAME": OUTPUT,
    "workflow.STEP.retry": RETRY,
    "workflow.STEP.leasing": LEASING,
    "agents.NAME": AGENT,
    "governance": GOVERNANCE,
}
