"""Log lines: one for each event, in which no value can pass for anything else."""

import ast
import json
import logging
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent.server.logs import TRACEBACK_CHARS_MAX, VALUE_CHARS_MAX, Json, Text

ROOT = Path(__file__).resolve().parents[2]
STARTS = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR) [\w.]+ "

HOSTILE = {
    "new line": "a\nERROR openintent.grantor term began term=9",
    "carriage return": "a\rERROR",
    "colour": "a\x1b[31mred\x1b[0m",
    "bell and nul": "a\x07\x00b",
    "delete": "a\x7fb",
    "line separators": "a\u2028b\u2029c\x85d\x0be",
    "turned around": "a\u202etxt.exe\u202c",
    "isolated": "a\u2066b\u2069",
    "invisible": "a\u200bb\u200dc\ufeffd\u3164e\u2800f\U000e0041g",
    "half a pair": "a\ud800b",
    "another field": 'a token=9 level="INFO"',
    "the end of a value": '"}, {"event": "forged"',
    "backslashes": "a\\nb\\",
}


def record(message, *args, name="openintent.test", level=logging.INFO, failure=None):
    about = (type(failure), failure, failure.__traceback__) if failure is not None else None
    made = logging.LogRecord(name, level, "file.py", 1, message, args, about)
    made.created = 1_794_823_200.123
    return made


def as_json(*args, **more):
    line = Json().format(record(*args, **more))
    assert "\n" not in line
    return json.loads(line)


def as_text(*args, **more):
    return Text().format(record(*args, **more))


# What a line looks like


def test_a_line_for_people():
    line = as_text("term began term=%d leases=%d", 3, 10)
    assert line == "2026-11-16T10:00:00.123Z INFO openintent.test term began term=3 leases=10"


def test_a_line_for_programs_has_numbers_as_numbers():
    assert as_json("term began term=%d share=%s open=%s by=%s", 3, 0.5, True, None) == {
        "at": "2026-11-16T10:00:00.123Z",
        "level": "INFO",
        "logger": "openintent.test",
        "event": "term began",
        "term": 3,
        "share": 0.5,
        "open": True,
        "by": None,
    }


def test_what_json_does_not_know_is_text():
    seen = as_json("seen a=%s b=%s c=%s", float("nan"), float("inf"), OSError("gone"))
    assert (seen["a"], seen["b"], seen["c"]) == ("nan", "inf", "gone")


@pytest.mark.parametrize(
    ("value", "shown"),
    [("ada", "ada"), ("10.0.0.1:80", "10.0.0.1:80"), ("two words", '"two words"'), ("", '""'), ("a=b", '"a=b"')],
)
def test_people_see_quotes_only_where_they_are_needed(value, shown):
    assert as_text("seen by=%s at=%d", value, 1).endswith(f" seen by={shown} at=1")


def test_what_a_library_says_is_one_event():
    for message, args, event in [
        ("Unsupported upgrade request.", (), "Unsupported upgrade request."),
        ("Cancel %s running task(s)", (3,), "Cancel 3 running task(s)"),
        ("a=b %% sure", (), "a=b %% sure"),
        ("%(who)s came", ({"who": "ada"},), "ada came"),
        (ValueError("odd"), (), "odd"),
    ]:
        seen = as_json(message, *args, name="uvicorn.error")
        assert (seen["event"], seen["logger"], len(seen)) == (event, "uvicorn.error", 4)


class Unshowable:
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("message", "args"), [("%d came", ("ada",)), ("%s %s", ("a",)), ("seen by=%s", (Unshowable(),))]
)
def test_what_cannot_be_shown_does_not_cost_the_line(message, args):
    assert message in as_text(message, *args)
    assert "unreadable" in as_json(message, *args)


# What values cannot do


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_a_value_cannot_leave_its_place(value):
    text = as_text("lease granted holder=%s token=%d", value, 7)
    assert re.fullmatch(STARTS + r'lease granted holder="[ -~]*" token=7', text)
    seen = as_json("lease granted holder=%s token=%d", value, 7)
    assert list(seen) == ["at", "level", "logger", "event", "holder", "token"]
    assert seen["holder"] == value.replace("\ud800", "\\ud800")
    assert as_json("%s", value)["event"] == value.replace("\ud800", "\\ud800")


@given(st.text(st.characters()), st.sampled_from(["seen by=%s", "%s"]))
def test_every_line_is_one_line_of_ascii_whatever_it_speaks_of(value, message):
    for line in (as_text(message, value), Json().format(record(message, value))):
        assert line.isascii()
        assert line.isprintable()


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=VALUE_CHARS_MAX))
def test_programs_read_what_was_said(value):
    assert as_json("seen by=%s", value)["by"] == value


def test_a_long_value_is_cut_and_says_so():
    shown = as_json("seen by=%s at=%s", "x" * 1_000_000, "y" * VALUE_CHARS_MAX)
    assert shown["by"] == "x" * VALUE_CHARS_MAX + "... (1000000 characters)"
    assert shown["at"] == "y" * VALUE_CHARS_MAX
    assert len(as_json("x" * 1_000_000)["event"]) < VALUE_CHARS_MAX + 50


def fail(message):
    raise ZeroDivisionError(message)


def raised(message):
    try:
        fail(message)
    except ZeroDivisionError as failure:
        return failure


def test_a_traceback_is_in_the_line():
    failure = raised("first\nsecond\x1b[31m")
    text = as_text("request failed path=%s", "/x", failure=failure)
    assert text.isprintable()
    assert 'path=/x traceback="Traceback (most recent call last):\\n' in text
    seen = as_json("request failed path=%s", "/x", failure=failure)
    assert seen["traceback"].endswith("ZeroDivisionError: first\nsecond\x1b[31m")


def test_of_a_long_traceback_the_end_is_kept():
    shown = as_json("request failed", failure=raised("x" * 1_000_000 + "end"))["traceback"]
    assert shown.endswith("xend")
    assert len(shown) < TRACEBACK_CHARS_MAX + 50


# The process

TALKATIVE = """
import logging, sys, threading, warnings
from openintent.server import logs
from openintent.server.settings import Settings

class Unlucky:
    def __del__(self):
        raise ZeroDivisionError("first\\nsecond")

def fail():
    raise ZeroDivisionError("first\\nsecond")

logs.set_up(Settings(log_format=sys.argv[1]))
try:
    fail()
except ZeroDivisionError:
    logging.getLogger("asyncio").exception("Task exception\\nwas never retrieved")
logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
logging.getLogger("uvicorn.error").info("Shutting down")
warnings.warn("odd\\nthing")
thread = threading.Thread(target=fail, name="a\\nb")
thread.start()
thread.join()
Unlucky()
"""


def test_all_that_a_process_has_to_say_goes_through_the_format():
    for log_format in ("text", "json"):
        command = [sys.executable, "-c", TALKATIVE, log_format]
        lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stderr.splitlines()
        assert len(lines) == 5
        assert all(line.isprintable() for line in lines)
    seen = [json.loads(line) for line in lines]
    assert [(each["level"], each["logger"]) for each in seen] == [
        ("ERROR", "asyncio"),
        ("WARNING", "uvicorn.error"),
        ("WARNING", "py.warnings"),
        ("ERROR", "openintent.server"),
        ("ERROR", "openintent.server"),
    ]
    assert [each["event"] for each in seen[3:]] == ["thread failed", "exception ignored"]
    assert seen[3]["thread"] == "a\nb"
    assert all(seen[n]["traceback"].endswith("ZeroDivisionError: first\nsecond") for n in (0, 3, 4))


# A real server


def served(log_format, requests):
    """What a server that was asked this writes to its log."""
    options = ["--port", "0", "--engine", "memory:", "--log-level", "debug", "--log-format", log_format]
    command = [sys.executable, "-m", "openintent.cli", "serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        port = int(process.stdout.readline().rsplit(b":", 1)[1])
        for raw in requests:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
                line.sendall(raw)
                while line.recv(65_536):
                    pass
        process.terminate()
        return process.stderr.read()


def asking(*, path="/api/v1/spaces/s/leases", agent="ada", body="{}", more=""):
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Agent-ID: {agent}\r\n{more}"
    raw = body.encode()
    return f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw


AGENTS = ["a\u202egnp", "a\u2028b", "a\u200bb\u3164", "\ufeffa", "a\x85b"]  # no parser lets control characters pass
HOSTILE_REQUESTS = [
    *(asking(agent=agent, body='{"ttl_seconds": 0}') for agent in AGENTS),
    asking(path="/api/v1/spaces/a%0d%0aERROR%1b%5b31m/leases"),
    asking(path="/api/v1/spaces/%e2%80%ae/leases"),
    asking(body=json.dumps({"scope": "a\nb\x1b[31m\u202e"})),
    asking(body=json.dumps({"scope\nERROR\u202e": 1})),
    asking(agent="a\nX-Forged: 1"),
    asking(agent="a\x00b"),
    asking(more="X-Odd: \x1b[31m\r\n"),
    asking(more="X Odd\u202e: 1\r\n"),
    b"GET /\xe2\x80\xae HTTP/1.1\r\n\r\n",
    b"\x1b[31mGET\r\nERROR openintent.grantor term began\r\n\r\n",
]


def test_no_client_can_forge_a_line_of_a_real_server():
    text = served("text", HOSTILE_REQUESTS).decode("ascii")
    for line in text.splitlines():
        assert re.match(STARTS, line)
        assert line.isprintable()
    assert text.count("\n") == len(text.splitlines())
    assert len(re.findall(STARTS + "request (refused|not read) ", text)) == len(HOSTILE_REQUESTS)


def test_programs_can_read_every_line_of_a_real_server():
    lines = [json.loads(line) for line in served("json", HOSTILE_REQUESTS).splitlines()]
    refused = [line for line in lines if line["event"] == "request refused"]
    assert [line["agent"] for line in refused][: len(AGENTS)] == AGENTS
    assert {line["path"] for line in refused} == {
        "/api/v1/spaces/s/leases",
        "/api/v1/spaces/a%0d%0aERROR%1b%5b31m/leases",
        "/api/v1/spaces/%e2%80%ae/leases",
    }
    events = [line["event"] for line in lines]
    assert (events.count("term began"), events[-1]) == (1, "term ended")
    assert len(refused) + events.count("request not read") == len(HOSTILE_REQUESTS)


# The table in the documentation

ROW = re.compile(r"^\| `([^`]+)` \| (\w+) \| `?([\w ]*?)`? ?\| ", re.MULTILINE)
CALL = re.compile(r"(?:log|logger|self\._words)\.(debug|info|warning|error|exception)")
OURS = re.compile(r"([^%=]+?)((?: \w+=%[drs])*)")


def said():
    """Every event in the source, with its level and the names of its values."""
    for path in sorted((ROOT / "src" / "openintent").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (called := CALL.fullmatch(ast.unparse(node.func))) is not None:
                assert isinstance(node.args[0], ast.Constant), f"{path.name}:{node.lineno}: an event has a fixed name"
                found = OURS.fullmatch(node.args[0].value)
                assert found is not None, f"{path.name}:{node.lineno}: an event is a name and then name=value"
                level = called[1].replace("exception", "error")
                yield found[1], level, tuple(re.findall(r" (\w+)=", found[2]))


def test_every_event_is_explained_and_every_explanation_has_its_event():
    table = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    explained = {(event, level, tuple(values.split())) for event, level, values in ROW.findall(table)}
    assert explained == set(said())


def test_no_value_has_the_name_of_a_part_of_the_line():
    parts = {"at", "level", "logger", "event", "traceback", "unreadable"}
    assert [event for event, _, values in said() if parts.intersection(values)] == []
