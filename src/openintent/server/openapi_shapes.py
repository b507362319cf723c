"""The structs that requests are decoded into and answers are encoded from, as JSON Schema.

The types say most of it. The rest is laid over them: bounds, which depend on the server's limits, and words.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from openintent import wire
from openintent.model import Limits
from openintent.server import openapi_bounds as bounds
from openintent.server.openapi_words import FIELDS
from openintent.server.routing import Route

Schema = dict[str, Any]

REF: Final = "#/components/schemas/{name}"
JSON: Final = {"$ref": REF.format(name="Json")}
# JSON Schema cannot tell 1e30, which is fine, from the same number with all its digits, which no engine can store.
ANY_JSON: Final[Schema] = {
    "description": "Any JSON. Numbers without a fraction or exponent fit in 64 bits; at most 64 levels are nested."
}


class Shapes:
    """All shapes of these routes: `components` by name, and `of` a type."""

    def __init__(self, routes: list[Route], limits: Limits) -> None:
        self._limits = limits
        self._of: dict[Any, Schema] = {}
        self.components: dict[str, Schema] = {"Json": ANY_JSON}
        of_bodies = bounds.of_bodies(limits)
        for name, schema in self._named([route.body for route in routes if route.body]).items():
            self.components[name] = _body(name, schema, of_bodies)
        for name, schema in self._named([wire.Problem, *(route.view for route in routes if route.view)]).items():
            self.components[name] = _view(name, schema)

    def _named(self, types: list[Any]) -> Mapping[str, Schema]:
        schemas, named = msgspec.json.schema_components(types, ref_template=REF)
        self._of.update(zip(types, schemas, strict=True))
        return named

    def of(self, shape: Any) -> Schema:
        return self._of[shape]

    def may_be_left_out(self, body: type) -> bool:
        """Whether an empty object is a body of this shape: so is none at all, then."""
        schema = self.components[body.__name__]
        return not schema.get("required") and "oneOf" not in schema

    def of_query(self, shape: type) -> Mapping[str, Schema]:
        """Each name that may stand after the question mark. What may be left out is not given as null."""
        _, named = msgspec.json.schema_components([shape], ref_template=REF)
        found: dict[str, Schema] = {}
        for field, schema in named[shape.__name__]["properties"].items():
            worded = _worded(shape.__name__, field, _tidy(schema), bounds.QUERY)
            if isinstance(worded.get("type"), list):
                worded["type"] = worded["type"][0]
            if None in worded.get("enum", ()):
                worded["enum"] = [each for each in worded["enum"] if each is not None]
            found[field] = {key: value for key, value in worded.items() if (key, value) != ("default", None)}
        return found


def _body(name: str, schema: Schema, of_bodies: Mapping[str, bounds.Keywords]) -> Schema:
    fields = schema["properties"]
    for field in bounds.NOT_OFFERED.get(name, ()):
        del fields[field]
    for field, said in fields.items():
        fields[field] = _fitting(_worded(name, field, _tidy(said), of_bodies))
    return {key: value for key, value in schema.items() if key != "title"} | bounds.TOGETHER.get(name, {})


def _fitting(schema: Schema) -> Schema:
    """Whole numbers that an engine can store, and no default where that says nothing."""
    if schema.get("default", ...) is None:
        del schema["default"]
    if "integer" in schema.get("type", ()) and "minimum" not in schema:
        schema |= {"minimum": bounds.INT_MIN, "maximum": bounds.INT_MAX}
    return schema


def _view(name: str, schema: Schema) -> Schema:
    """Everything is always there, except in a problem, which has only what there is to say."""
    fields = schema["properties"]
    for field, said in fields.items():
        said.pop("default", None)
        fields[field] = _worded(name, field, _tidy(said), bounds.VIEWS)
        if field.endswith("_at") or field in bounds.DATES:
            fields[field]["pattern"] = bounds.DATE
    shown = {key: value for key, value in schema.items() if key != "title"}
    return shown if name == "Problem" else shown | {"required": list(fields)}


def _worded(shape: str, field: str, schema: Schema, keywords: Mapping[str, bounds.Keywords]) -> Schema:
    """The schema of a field with all that is known of it by its name."""
    described = _found(FIELDS, shape, field)
    more = _found(keywords, shape, field) or {}
    if "enum" in schema:
        more = {key: value for key, value in more.items() if key == "enum"}
    return {**schema, **more, **({"description": described} if described else {})}


def _found(table: Mapping[str, Any], shape: str, field: str) -> Any:
    """By the shape, or one that it extends; else by the name alone."""
    kind = getattr(wire, shape, None)
    parents = [shape] if kind is None else [parent.__name__ for parent in kind.__mro__]
    exact = next((table[key] for parent in parents if (key := f"{parent}.{field}") in table), None)
    return table.get(field) if exact is None else exact


def _tidy(schema: Schema) -> Schema:
    """A type that may be null says so in one word, and whatever may be anything is called `Json`."""
    if "anyOf" in schema:
        schema = _alternatives(schema)
    kind = schema.get("type", ())
    if "object" in kind and "properties" not in schema:
        schema = {**schema, "additionalProperties": _tidy(schema.get("additionalProperties", {}))}
    if "array" in kind:
        schema = {**schema, "items": _tidy(schema.get("items", {}))}
    says_nothing = not schema.keys() - {"default", "description"}
    return {**schema, **JSON} if says_nothing else schema


def _alternatives(schema: Schema) -> Schema:
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    some = [_tidy(each) for each in schema["anyOf"] if each != {"type": "null"}]
    nullable = len(some) < len(schema["anyOf"])
    if len(some) > 1 or "$ref" in some[0]:
        return {"anyOf": [*some, *([{"type": "null"}] if nullable else [])], **rest}
    (one,) = some
    if "enum" in one:
        return {**one, "enum": [*one["enum"], None], **rest}
    return {**one, "type": [one["type"], "null"], **rest}
