"""One line for each event, for people or for programs.

A call in the code names its event and then its values: `log.info("term began term=%d leases=%d", term, leases)`. Lines
are made from these parts, not from the finished sentence: a value cannot pass for another value, and programs get
numbers as numbers. What a library logs in its own way is one event without values.

A line is ASCII. Names come from clients; all else in them is escaped, so that none can begin a line of its own, move
the cursor, be invisible or turn the direction of reading. Nothing in a line is longer than its bound.
"""

import json
import logging
import math
import re
import sys
import threading
from datetime import UTC, datetime
from typing import Any, Final

from openintent.server.settings import Settings

log = logging.getLogger("openintent.server")

VALUE_CHARS_MAX: Final = 1_000  # longer than any name; of a text longer than this nobody reads the rest
TRACEBACK_CHARS_MAX: Final = 10_000  # some hundred frames

_EVENT: Final = re.compile(r"([^%=]+?)((?: \w+=%[a-z])*)")
_FIELD: Final = re.compile(r" (\w+)=")
_PLAIN: Final = re.compile(r'"([\w.:/@+-]+)"', re.ASCII)

Parts = dict[str, Any]


class Text(logging.Formatter):
    """`2026-11-16T10:00:00.123Z INFO openintent.grantor term began term=3 leases=10`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = _parts(record)
        # The event is ours, or the whole message of a library: it needs no quotes, as nothing follows that is not ours.
        event = json.dumps(fields.pop("event"))[1:-1]
        values = "".join(f" {name}={_shown(value)}" for name, value in fields.items())
        return f"{_date(record)} {record.levelname} {record.name} {event}{values}"


def _shown(value: Any) -> str:
    """In quotes only where it would not be clear what belongs to it."""
    return _PLAIN.sub(r"\1", json.dumps(value))


class Json(logging.Formatter):
    """The same as one object: `{"at":"...","level":"INFO","logger":"openintent.grantor","event":"term began",...}`."""

    def format(self, record: logging.LogRecord) -> str:
        head = {"at": _date(record), "level": record.levelname, "logger": record.name}
        return json.dumps(head | _parts(record), separators=(",", ":"))


FORMATS: Final = {"text": Text, "json": Json}


def _date(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parts(record: logging.LogRecord) -> Parts:
    """The event, its values, and where it came from if it is a failure; nothing but short text and numbers."""
    parts = _said(record)
    if record.exc_info and record.exc_info[0] is not None:
        parts["traceback"] = _last(logging.Formatter().formatException(record.exc_info))
    return parts


def _said(record: logging.LogRecord) -> Parts:
    template, args = record.msg, record.args
    try:
        found = _EVENT.fullmatch(template) if isinstance(template, str) and isinstance(args, tuple) else None
        names = _FIELD.findall(found[2]) if found is not None else []
        if found is None or len(names) != len(args or ()):
            return {"event": _short(record.getMessage())}
        return {"event": _short(found[1])} | {name: _value(arg) for name, arg in zip(names, args or (), strict=True)}
    except Exception as failure:  # noqa: BLE001  # what cannot be shown must not cost the line
        return {"event": _short(repr(template)), "unreadable": type(failure).__name__}


def _value(value: object) -> Any:
    # NaN and infinity are not JSON.
    if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return _short(str(value))


def _short(text: str) -> str:
    if len(text) > VALUE_CHARS_MAX:
        text = f"{text[:VALUE_CHARS_MAX]}... ({len(text)} characters)"
    # Half of a pair of surrogates is not JSON either.
    return text.encode("utf-8", "backslashreplace").decode()


def _last(traceback: str) -> str:
    """A traceback ends with what matters."""
    if len(traceback) > TRACEBACK_CHARS_MAX:
        traceback = f"({len(traceback)} characters) ...{traceback[-TRACEBACK_CHARS_MAX:]}"
    return traceback.encode("utf-8", "backslashreplace").decode()


# The process


def set_up(settings: Settings) -> None:
    """Everything that this process has to say goes to stderr in the chosen format, also what libraries say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATS[settings.log_format]())
    logging.basicConfig(handlers=[handler], level=settings.log_level.upper(), force=True)
    # What uvicorn has to say besides is said by us. The second is asked for its own level at each connection.
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    logging.captureWarnings(capture=True)
    threading.excepthook = _thread_failed
    sys.unraisablehook = _not_raised


def _thread_failed(args: threading.ExceptHookArgs) -> None:
    name = args.thread.name if args.thread is not None else "unknown"
    failure = args.exc_value if args.exc_value is not None else True
    log.error("thread failed thread=%s", name, exc_info=failure)


def _not_raised(args: "sys.UnraisableHookArgs") -> None:
    log.error("exception ignored where=%r", args.object, exc_info=args.exc_value)
