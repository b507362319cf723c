"""The description of the interface as a page of Markdown, made from the same document as everything else."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from openintent.server.openapi_words import ANSWERED, CODES, SENT

Schema = dict[str, Any]

HEAD: Final = """# HTTP reference

Every operation of the server, made by `openintent schema --markdown`; [HTTP](http.md) explains how they belong
together. A running server has the same at `/docs`, where it can be tried, and at `/openapi.json` for programs.
"""
# What any operation may be refused with; the others are named with theirs.
COMMON: Final = (
    "bad_request",
    "unauthenticated",
    "forbidden",
    "not_found",
    "method_not_allowed",
    "body_too_large",
    "unsupported_media_type",
    "invalid",
    "overloaded",
    "headers_too_large",
    "internal",
    "unavailable",
    "outcome_unknown",
)
WORDS_MAX: Final = 2**53  # bounds beyond are those of the engine, and say nothing to people


def markdown(document: Schema) -> str:
    return "\n".join(_Reference(document).lines())


class _Reference:
    def __init__(self, document: Schema) -> None:
        self._document = document

    def lines(self) -> Iterator[str]:
        yield HEAD
        yield self._document["info"]["description"]
        yield from _table("Headers you send", "header", SENT)
        yield from _table("Headers you get", "header", ANSWERED)
        yield from self._refusals()
        for tag in self._document["tags"]:
            yield f"\n## {tag['name']}\n\n{tag['description']}"
            for path, methods in self._document["paths"].items():
                for method, operation in methods.items():
                    if tag["name"] in operation["tags"]:
                        yield from self._operation(path, method.upper(), operation)
        yield "\n## Shapes\n\nA star marks what is required. Of an answer, all fields are there; of a `Problem`, some."
        for name, shape in sorted(self._document["components"]["schemas"].items()):
            yield from _shape(name, shape)
        yield ""

    def _refusals(self) -> Iterator[str]:
        yield "\n## Refusals\n\nThe first ones may come from any operation; the others are named with theirs.\n"
        yield "| code | status | means |\n|---|---|---|"
        for code in sorted(CODES, key=lambda code: (code not in COMMON, CODES[code][0])):
            status, said = CODES[code]
            yield f"| `{code}` | {status} | {said} |"

    def _operation(self, path: str, method: str, operation: Schema) -> Iterator[str]:
        yield f"\n### {operation['summary']}: `{method} {path}`\n"
        if "description" in operation:
            yield f"{operation['description']}\n"
        parameters = [self._there(each) for each in operation.get("parameters", [])]
        if parameters:
            yield "| parameter | in | type | |\n|---|---|---|---|"
            for each in parameters:
                star, kind = "*" if each["required"] else "", _kind(each["schema"]) + _bounds(each["schema"])
                yield f"| `{each['name']}`{star} | {each['in']} | {kind} | {each['description']} |"
            yield ""
        yield " ".join(self._said(operation))
        example = self._curl(path, method, operation, parameters)
        if example:
            yield f"\n```sh\n{example}\n```"

    def _said(self, operation: Schema) -> Iterator[str]:
        if "requestBody" in operation:
            optional = "" if operation["requestBody"]["required"] else ", which may be left out"
            yield f"Body: {_link(operation['requestBody']['content']['application/json']['schema'])}{optional}."
        ((media, shown),) = operation["responses"]["200"]["content"].items()
        yield f"Answer: {_link(shown['schema']) if media == 'application/json' else f'`{media}`'}."
        described = "\n".join(self._there(each)["description"] for each in operation["responses"].values())
        own = [code for code in re.findall(r"^- `(\w+)`", described, re.MULTILINE) if code not in COMMON]
        if own:
            yield f"Refused as {', '.join(f'`{code}`' for code in own)}."

    def _curl(self, path: str, method: str, operation: Schema, parameters: list[Schema]) -> str:
        for each in parameters:
            path = path.replace(f"{{{each['name']}}}", str(each.get("example")))
        given = {each["name"]: each["example"] for each in parameters if each["in"] == "query" and "example" in each}
        query = "&".join(f"{name}={value}" for name, value in given.items())
        words = ["curl -s", *([] if method == "GET" else [f"-X {method}"])]
        words.append(f"'localhost:8000{path}?{query}'" if query else f"localhost:8000{path}")
        headers = {each["name"]: each["example"] for each in parameters if each["in"] == "header" and each["required"]}
        if any(each["name"] == "X-Agent-ID" for each in parameters):
            headers["X-Agent-ID"] = "ada"
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
        if body is not None:
            headers["Content-Type"] = "application/json"
        words += [f"-H '{name}: {value}'" for name, value in headers.items()]
        return " ".join(words) + ("" if body is None else f" \\\n  -d '{json.dumps(body, ensure_ascii=False)}'")

    def _there(self, thing: Schema) -> Schema:
        """What a reference refers to."""
        if "$ref" not in thing:
            return thing
        _, _, group, name = thing["$ref"].split("/")
        found: Schema = self._document["components"][group][name]
        return found


def _table(title: str, first: str, rows: dict[str, str]) -> Iterator[str]:
    yield f"\n## {title}\n\n| {first} | means |\n|---|---|"
    yield from (f"| `{name}` | {said} |" for name, said in rows.items())


def _shape(name: str, shape: Schema) -> Iterator[str]:
    yield f"\n### {name}\n"
    if "description" in shape:
        yield f"{shape['description']}\n"
    if "properties" in shape:
        yield "| field | type | |\n|---|---|---|"
    required = shape.get("required", []) if name.endswith("Body") or name == "HeldLease" else []
    for field, schema in shape.get("properties", {}).items():
        star = "*" if field in required else ""
        yield f"| `{field}`{star} | {_kind(schema)}{_bounds(schema)} | {schema.get('description', '')} |"


def _name(schema: Schema) -> str:
    name: str = schema["$ref"].rpartition("/")[2]
    return name


def _link(schema: Schema) -> str:
    if "items" in schema:
        return f"a list of {_link(schema['items'])}"
    return f"[{_name(schema)}](#{_name(schema).lower()})" if "$ref" in schema else "an object"


def _kind(schema: Schema) -> str:
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if "$ref" in schema:
        return "anything" if _name(schema) == "Json" else _link(schema)
    if "enum" in schema:
        return ", ".join("null" if each is None else f"`{each}`" for each in schema["enum"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kind = " or ".join(kinds)
    return f"{kind} of {_kind(schema['items'])}" if "items" in schema else kind


def _bounds(schema: Schema) -> str:
    """What is asked of a value, in words."""
    said = [
        *_range(schema.get("minimum"), schema.get("maximum"), ""),
        *_range(schema.get("minLength"), schema.get("maxLength"), " characters"),
        *_range(schema.get("minItems"), schema.get("maxItems"), " items"),
    ]
    if "exclusiveMinimum" in schema:
        said.append(f"above {schema['exclusiveMinimum']:g}")
    if "default" in schema:
        said.append(f"default `{json.dumps(schema['default'])}`")
    return "".join(f", {each}" for each in said)


def _range(least: float | None, most: float | None, unit: str) -> Iterator[str]:
    least = None if least is None or abs(least) > WORDS_MAX else least
    most = None if most is None or abs(most) > WORDS_MAX else most
    if least is not None and most is not None:
        yield f"{least:.10g} to {most:.10g}{unit}"
    elif least is not None:
        yield f"at least {least:.10g}{unit}"
    elif most is not None:
        yield f"at most {most:.10g}{unit}"
