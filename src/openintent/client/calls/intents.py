"""Intents and how they are related."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from openintent.client import replies
from openintent.client.calls.base import JSON, Call, given, headers, query, quoted, space_path
from openintent.client.replies import Page
from openintent.client.values import Discovery, Intent

# A tilde that begins no escape of JSON pointer stands for itself.
_LONE_TILDE: Final = re.compile(r"~(?![01])")


def _path(intent_id: str) -> str:
    return space_path(f"intent:{intent_id}")


def create_intent(body: JSON, *, attempt: str, parent_id: str | None = None) -> Call[Intent]:
    path = "/intents" if parent_id is None else f"{_path(parent_id)}/children"
    return Call("POST", path, replies.intent, body, headers(attempt=attempt))


def get_intent(intent_id: str) -> Call[Intent]:
    return Call("GET", _path(intent_id), replies.intent)


def list_intents(*, status: str | None, limit: int | None, offset: int | str | None) -> Call[Page[Intent]]:
    return Call("GET", "/intents" + query(status=status, limit=limit, offset=offset), replies.intents)


def delete_intent(intent_id: str) -> Call[None]:
    return Call("DELETE", _path(intent_id), replies.nothing)


def patch_state(
    intent_id: str, patches: Sequence[JSON], *, version: int | None, token: int | None, attempt: str
) -> Call[Intent]:
    body = {"patches": patches, **given(token=token)}
    sent = headers(attempt=attempt, version=version, match=True)
    return Call("PATCH", f"{_path(intent_id)}/state", replies.intent, body, sent)


def set_status(
    intent_id: str, status: str, *, version: int | None, reason: str | None, token: int | None, attempt: str
) -> Call[Intent]:
    sent = headers(attempt=attempt, version=version, match=True)
    body = {"status": status, **given(reason=reason, token=token)}
    return Call("POST", f"{_path(intent_id)}/status", replies.intent, body, sent)


def patches_of(changes: JSON | Sequence[JSON]) -> list[JSON]:
    """Each key of a mapping becomes one `set`; a list of patches goes as it is."""
    patches: list[JSON] = (
        [{"op": "set", "path": _LONE_TILDE.sub("~0", key), "value": value} for key, value in changes.items()]
        if isinstance(changes, Mapping)
        else list(changes)
    )
    # The encoder would silently write null for them.
    if any(_has_no_json(patch.get("value")) for patch in patches):
        raise ValueError("NaN and Infinity are no JSON: the state would change on its way")
    return patches


def _has_no_json(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(map(_has_no_json, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_no_json, value))


# Relatives


def get_relatives(intent_id: str, kind: str) -> Call[list[Intent]]:
    """`kind` is the last part of the path, and the name of the list in the answer."""
    return Call("GET", f"{_path(intent_id)}/{kind}", replies.listing(Intent, kind))


def add_dependency(intent_id: str, dependency_id: str, *, version: int | None) -> Call[Intent]:
    path = f"{_path(intent_id)}/dependencies"
    return Call("POST", path, replies.intent, {"dependency_id": dependency_id}, headers(version=version))


def remove_dependency(intent_id: str, dependency_id: str, *, version: int | None) -> Call[Intent]:
    path = f"{_path(intent_id)}/dependencies/{quoted(dependency_id)}"
    # One that is gone already is refused, so a repeat could not tell our own success from somebody else's.
    return Call("DELETE", path, replies.intent, headers=headers(version=version), repeatable=False)


# The server


def discover() -> Call[Discovery]:
    return Call("GET", "/.well-known/openintent.json", replies.reading(Discovery), at_root=True)
