"""Real things for made-up requests to be about: a request about nothing is answered 404, and that proves little.

What a case says is left as it was drawn, except where only something that exists can be meant: names in the path, ids
in the body. What was drawn to be refused is not touched.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

import httpx2
from schemathesis import Case
from schemathesis.core.parameters import ParameterLocation

AGENT = "ada"
TRIES_MAX = 100
VALUES = {f"kept-{n}": n for n in range(100)}

_numbers = count(1)


class Furniture:
    """Makes what a request needs, on a real server."""

    def __init__(self, url: str) -> None:
        self._http = httpx2.Client(base_url=f"{url}/api/v1", headers={"X-Agent-ID": AGENT}, timeout=20)

    def close(self) -> None:
        self._http.close()

    def _made(self, path: str, body: dict[str, Any], **headers: str) -> str:
        for _ in range(TRIES_MAX):
            reply = self._http.post(path, json=body, headers=headers)
            if reply.status_code != 429:  # the machine is busy, and with it the server
                break
        assert reply.status_code == 200, reply.text
        return str(reply.json()["id"])

    def intent(self) -> str:
        return self._made("/intents", {"title": "Report", "state": VALUES})

    def portfolio(self) -> str:
        return self._made("/portfolios", {"name": "Third quarter"})

    def agent(self) -> str:
        return self._made("/agents/register", {"agent_id": f"agent-{next(_numbers)}"})

    def attempt(self, path: str) -> str:
        """One that was granted a lease in the place that the path names, or leads it."""
        key = f"attempt-{next(_numbers)}"
        *_, kind, name, what = path.split("/")
        leads = what == "coordinators"
        body = {f"{kind.removesuffix('s')}_id": name} if leads else {"scope": key}
        self._made("/coordinators" if leads else f"/{kind}/{name}/leases", body, **{"Idempotency-Key": key})
        return key

    # Names

    def names(self, path: str) -> dict[str, str]:
        """For every name in the path, that of something which exists, related as the path says."""
        found: dict[str, str] = {}
        for name, make in self._makers(found).items():
            if f"{{{name}}}" in path:
                found[name] = make(path)
        return found

    def _makers(self, found: dict[str, str]) -> dict[str, Callable[[str], str]]:
        def member(_: str) -> str:
            intent = self.intent()
            if "portfolio_id" in found:
                self._made(f"/portfolios/{found['portfolio_id']}/intents", {"intent_id": intent})
            return intent

        def lease(_: str) -> str:
            kind, name = next(iter(found.items()), ("space", f"space-{next(_numbers)}"))
            place = "intents" if kind == "intent_id" else "spaces"
            return self._made(f"/{place}/{name}/leases", {"scope": "research"})

        def agent(_: str) -> str:
            name = self.agent()
            if "intent_id" in found:
                self._made(f"/intents/{found['intent_id']}/agents", {"agent_id": name})
            return name

        def dependency(_: str) -> str:
            other = self.intent()
            self._made(f"/intents/{found['intent_id']}/dependencies", {"dependency_id": other})
            return other

        return {
            "portfolio_id": lambda _: self.portfolio(),
            "intent_id": member,
            "space": lambda _: f"space-{next(_numbers)}",
            "lease_id": lease,
            "coordinator_id": lambda _: self._made("/coordinators", {"intent_id": self.intent()}),
            "agent_id": agent,
            "dependency_id": dependency,
        }

    # Cases

    def furnish(self, case: Case, *, names: bool = True) -> None:
        """Give the case what it needs; its names in the path are its own affair if it followed a link."""
        if names and _is_drawn_valid(case, ParameterLocation.PATH):
            case.path_parameters = self.names(case.path) or case.path_parameters
        if _is_drawn_valid(case, ParameterLocation.HEADER):
            self._furnish_headers(case)
        if (
            names
            and "attempt" in (case.query or {})
            and _is_drawn_valid(case, ParameterLocation.QUERY, ParameterLocation.PATH)
        ):
            case.query = {**case.query, "attempt": self.attempt(case.formatted_path)}
        if _is_drawn_valid(case, ParameterLocation.BODY) and isinstance(case.body, dict):
            case.body = self.furnished(_whole(case.body), parent=case.path_parameters.get("intent_id"))

    def _furnish_headers(self, case: Case) -> None:
        known = {parameter.name for parameter in case.operation.headers}
        number = next(_numbers)
        if "X-Agent-ID" in known:
            case.headers["X-Agent-ID"] = AGENT
        if "Idempotency-Key" in case.headers:
            case.headers["Idempotency-Key"] = f"attempt-{number}"
        if number % 3:  # else as drawn: versions and tokens that nobody knows are refused as such
            case.headers.pop("X-Lease-Token", None)
            if "If-Match" in case.headers:
                case.headers["If-Match"] = "*"

    def furnished(self, body: dict[str, Any], parent: str | None = None) -> dict[str, Any]:
        """The body about things that exist; `parent` is the intent in the path."""
        for field in ("parent_intent_id", "parent_id"):
            if isinstance(body.get(field), str):
                parent = parent or self.intent()  # an intent has one
                body = {**body, field: parent}
        for field in ("dependency_id", "intent_id"):
            if isinstance(body.get(field), str):
                body = {**body, field: self.intent()}
        if isinstance(body.get("portfolio_id"), str):
            body = {**body, "portfolio_id": self.portfolio()}
        if body.get("depends_on"):
            body = {**body, "depends_on": [self.intent()] * len(body["depends_on"])}
        if body.get("patches"):
            body = {**body, "patches": [_possible(*each) for each in enumerate(body["patches"])]}
        if isinstance(body.get("heartbeat_config"), dict):
            body = {**body, "heartbeat_config": _in_order(body["heartbeat_config"])}
        return body


def is_utf8_by_chance(case: Case) -> bool:
    """Whether a header beyond ASCII, sent as Latin-1, reads as a name in UTF-8: good to the server, not described."""
    return any(isinstance(text, str) and not text.isascii() and _reads(text) for text in (case.headers or {}).values())


def _reads(text: str) -> bool:
    try:
        return text.encode("latin-1").decode().isprintable()
    except UnicodeError:
        return False


def _is_drawn_valid(case: Case, *locations: ParameterLocation) -> bool:
    assert case.meta is not None
    found = [case.meta.components.get(location) for location in locations]
    return all(component is None or component.mode.is_positive for component in found)


def _whole(value: Any) -> Any:
    """Whole numbers written as such and within 64 bits: differences that JSON Schema does not know."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return min(max(value, -(1 << 63)), (1 << 64) - 1)
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53 else value


def _possible(index: int, step: dict[str, Any]) -> dict[str, Any]:
    """The step where it is not in the way of others; only what is there can be removed."""
    if step["op"] == "remove":
        return {**step, "path": f"kept-{index}"}
    return {**step, "path": f"{index}{step['path'].removeprefix('/')}"}


def _in_order(config: dict[str, Any]) -> dict[str, Any]:
    """Nobody is dead before being unhealthy."""
    if config.get("unhealthy_after_seconds") is None and config.get("dead_after_seconds") is None:
        return config
    times = [config.get(name) or 0.1 for name in ("unhealthy_after_seconds", "dead_after_seconds")]
    return {**config, "unhealthy_after_seconds": min(times), "dead_after_seconds": max(times)}
