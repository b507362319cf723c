"""What the hot lane needs of uvicorn, beyond what it documents, and whether the one that is installed has it."""

import inspect
from typing import Final

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_CYCLE_TAKES: Final = (
    "self scope transport flow logger access_logger access_log default_headers message_event expect_100_continue"
    " keep_alive on_response"
)
# Methods and, where we call or replace them, what they take.
RELIED_ON: Final[tuple[tuple[type, str, str], ...]] = (
    (HttpToolsProtocol, "__init__", "self config server_state app_state _loop"),
    (HttpToolsProtocol, "connection_made", "self transport"),
    (HttpToolsProtocol, "connection_lost", "self exc"),
    (HttpToolsProtocol, "data_received", "self data"),
    (HttpToolsProtocol, "on_message_begin", "self"),
    (HttpToolsProtocol, "on_url", "self url"),
    (HttpToolsProtocol, "on_header", "self name value"),
    (HttpToolsProtocol, "on_headers_complete", "self"),
    (HttpToolsProtocol, "on_body", "self body"),
    (HttpToolsProtocol, "on_message_complete", "self"),
    (HttpToolsProtocol, "shutdown", "self"),
    (HttpToolsProtocol, "_start_asgi_task", "self cycle app"),
    (FlowControl, "__init__", "self transport"),
    (FlowControl, "pause_reading", "self"),
    (FlowControl, "resume_reading", "self"),
    (FlowControl, "pause_writing", "self"),
    (FlowControl, "resume_writing", "self"),
    (RequestResponseCycle, "__init__", _CYCLE_TAKES),
    (RequestResponseCycle, "send_500_response", "self"),
)
ATTRIBUTES: Final[dict[type, set[str]]] = {
    HttpToolsProtocol: {
        "app",
        "client",
        "connections",
        "cycle",
        "flow",
        "parser",
        "pipeline",
        "root_path",
        "transport",
    },
    FlowControl: {"read_paused", "write_paused"},
    RequestResponseCycle: {
        "body",
        "disconnected",
        "keep_alive",
        "message_event",
        "more_body",
        "response_complete",
        "response_started",
        "waiting_for_100_continue",
    },
}


def self_check() -> str | None:
    """Why the hot lane cannot work with the uvicorn that is installed, in one sentence; None if it can."""
    for owner, name, wanted in RELIED_ON:
        method = getattr(owner, name, None)
        if method is None:
            return f"uvicorn's {owner.__name__} has no {name}"
        takes = inspect.signature(method).parameters
        if list(takes) != wanted.split():
            return f"uvicorn's {owner.__name__}.{name} takes ({', '.join(takes)})"
    for owner, names in ATTRIBUTES.items():
        missing = names.difference(vars(owner)["__init__"].__code__.co_names)
        if missing:
            return f"uvicorn's {owner.__name__} does not set {', '.join(sorted(missing))}"
    return None
