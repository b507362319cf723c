"""The kinds of values that a workflow file has. Each knows how to check one, and how to say so to an editor.

`take` gives the value that a node means, or `WRONG` after it has said what is wrong. `schema` is the same rule as JSON
Schema. Both are made from the same fields, so they cannot differ.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from openintent.workflows.problems import Place, Problems, did_you_mean, likely
from openintent.workflows.reading import (
    ONCE_BOOLEANS,
    Entries,
    Items,
    Node,
    Refused,
    Scalar,
    described,
    plain,
    shortened,
)

WRONG: Final[Any] = object()

UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")

Schema = dict[str, Any]


class Kind(Protocol):
    def take(self, node: Node, path: str, problems: Problems) -> Any: ...

    def schema(self) -> Schema: ...


def expected(what: str, node: Node, path: str, problems: Problems, hint: str | None = None) -> Any:
    if not isinstance(node, Refused):
        if hint is None and isinstance(node, Scalar) and node.value is None:
            hint = "write one, or leave the key out"
        problems.error(node.place, path, f"expected {what}, found {described(node)}", hint)
    return WRONG


@dataclass(frozen=True, slots=True)
class Text:
    what: str = "a text"
    chars_max: int = 4_096
    chars_min: int = 0
    pattern: str | None = None
    shape: str = ""  # the pattern in words
    is_name: bool = False

    def take(self, node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            return expected(self.what, node, path, problems, _quote(node))
        if not self.fits(node, path, problems):
            return WRONG
        if self.is_name:
            warn_of_word(node, path, problems)
        return node.value

    def fits(self, node: Scalar, path: str, problems: Problems) -> bool:
        """Also for keys, which are texts whatever they look like."""
        text = node.text
        if not self.chars_min <= len(text) <= self.chars_max:
            least = f"{self.chars_min} to " if self.chars_min else "at most "
            problems.error(node.place, path, f"expected {self.what} of {least}{self.chars_max} characters")
        elif self.pattern is not None and re.fullmatch(self.pattern, text) is None:
            problems.error(node.place, path, f'"{shortened(text)}" is not {self.what}', self.shape or None)
        elif self.is_name and not text.isprintable():
            problems.error(node.place, path, f"{self.what} has only characters that can be seen")
        else:
            return True
        return False

    def schema(self) -> Schema:
        bounds = {"minLength": self.chars_min} if self.chars_min else {}
        pattern = {} if self.pattern is None else {"pattern": f"^(?:{self.pattern})$"}
        return {"type": "string", **bounds, "maxLength": self.chars_max, **pattern}


def _quote(node: Node) -> str | None:
    if not isinstance(node, Scalar) or node.value is None:
        return None
    return f'if it is meant as a text, write "{shortened(node.text)}"'


def warn_of_word(node: Scalar, path: str, problems: Problems) -> None:
    word = ONCE_BOOLEANS.get(node.text.lower())
    if node.plain and word is not None:
        message = f"{node.text} is taken as a text here; older YAML takes it for {word}"
        problems.warn(node.place, path, message, f'write "{node.text}"')


@dataclass(frozen=True, slots=True)
class Number:
    least: float
    most: float
    whole: bool = False
    above: bool = False  # `least` itself is too small
    per: int = 1  # how many of it make one of what we count in

    def take(self, node: Node, path: str, problems: Problems) -> Any:
        value = node.value if isinstance(node, Scalar) else None
        if self.whole and isinstance(value, float) and value.is_integer():
            value = int(value)  # to JSON Schema 2.0 is whole, too
        if not isinstance(value, int if self.whole else int | float) or isinstance(value, bool):
            return expected("a whole number" if self.whole else "a number", node, path, problems, _unquote(node))
        return self.bounded(value, node, path, problems)

    def bounded(self, value: float, node: Node, path: str, problems: Problems) -> Any:
        if not self.least <= value <= self.most or (self.above and value == self.least):
            shown = shortened(node.text) if isinstance(node, Scalar) else ""
            problems.error(node.place, path, f"expected a number {self.bounds}, found {shown}")
            return WRONG
        return value if self.whole else value / self.per

    @property
    def bounds(self) -> str:
        return f"{'above' if self.above else 'from'} {self.least:g} {'up ' if self.above else ''}to {self.most:.12g}"

    def schema(self) -> Schema:
        least = {"exclusiveMinimum" if self.above else "minimum": self.least}
        return {"type": "integer" if self.whole else "number", **least, "maximum": self.most}


def _unquote(node: Node) -> str | None:
    if not isinstance(node, Scalar) or node.plain or re.fullmatch(r"[0-9.]{1,20}", node.text) is None:
        return None
    return f"write {node.text} without quotes"


@dataclass(frozen=True, slots=True)
class Duration:
    """A number of seconds, or a length like `30s`."""

    number: Number

    def take(self, node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            return self.number.take(node, path, problems)
        found = DURATION.fullmatch(node.text)
        if found is None:
            return expected("a number of seconds or a duration", node, path, problems, "as in 30s, 5m, 2h or 1.5")
        # The same number, whichever way it is written: 0.7 times 1000 is not 700 to a computer.
        length_s = round(float(found[1]) * UNITS_S[found[2]], 6)
        return self.number.bounded(length_s, node, path, problems)

    def schema(self) -> Schema:
        return {"anyOf": [self.number.schema(), {"type": "string", "pattern": f"^(?:{DURATION.pattern})$"}]}


@dataclass(frozen=True, slots=True)
class Flag:
    def take(self, node: Node, path: str, problems: Problems) -> Any:
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        word = ONCE_BOOLEANS.get(node.text.lower()) if isinstance(node, Scalar) else None
        return expected("true or false", node, path, problems, f"write {word}" if word else None)

    def schema(self) -> Schema:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Choice:
    words: tuple[str, ...]
    same: Mapping[str, str] = field(default_factory=dict)  # other spellings

    def take(self, node: Node, path: str, problems: Problems) -> Any:
        if isinstance(node, Scalar) and isinstance(node.value, str):
            word = self.same.get(node.text, node.text)
            if word in self.words:
                return word
        *others, last = self.words
        listed = f"{', '.join(others)} or {last}" if others else f'the text "{last}"'
        return expected(listed, node, path, problems, self._hint(node))

    def _hint(self, node: Node) -> str | None:
        if not isinstance(node, Scalar):
            return None
        if node.text in self.words:  # a number, say, that is meant as a text
            return f'write "{node.text}"'
        close = likely(node.text, self.words)
        return f"did you mean {close}?" if close else None

    def schema(self) -> Schema:
        return {"enum": [*self.words, *self.same]}


@dataclass(frozen=True, slots=True)
class Either:
    """The first kind that the node looks like; the last one if it is like none."""

    kinds: tuple[tuple[Callable[[Node], bool], Kind], ...]
    otherwise: Kind

    def take(self, node: Node, path: str, problems: Problems) -> Any:
        kind = next((kind for is_like, kind in self.kinds if is_like(node)), self.otherwise)
        return kind.take(node, path, problems)

    def schema(self) -> Schema:
        return {"anyOf": [*(kind.schema() for _, kind in self.kinds), self.otherwise.schema()]}


@dataclass(frozen=True, slots=True)
class Anything:
    """A mapping, or a list where that may be, with any values in it; and how many bytes it may take as JSON."""

    list_too: bool = False
    bytes_max: int | None = None
    reserved: tuple[str, ...] = ()

    def take(self, node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node, Entries | Items if self.list_too else Entries):
            return expected("a list or a mapping" if self.list_too else "a mapping", node, path, problems)
        value = plain(node)
        if self.bytes_max is not None and len(msgspec.json.encode(value)) > self.bytes_max:
            problems.error(node.place, path, f"this takes more than {self.bytes_max} bytes", "shorten it")
        if isinstance(node, Entries):
            self._refuse_reserved(node, path, problems)
        return value

    def _refuse_reserved(self, node: Entries, path: str, problems: Problems) -> None:
        for key in (node.entries[name].key for name in self.reserved if name in node.entries):
            problems.error(key.place, f"{path}.{key.text}", f"{key.text} is kept for records", "choose another name")

    def schema(self) -> Schema:
        names = {"propertyNames": {"not": {"enum": list(self.reserved)}}} if self.reserved else {}
        return {"type": ["object", "array"] if self.list_too else "object", **names}


@dataclass(frozen=True, slots=True)
class ListOf:
    kind: Kind
    one_too: bool = False  # one that is not in a list is a list of one
    items_max: int = 1_000
    distinct: bool = True

    def take(self, node: Node, path: str, problems: Problems) -> Any:
        if self.one_too and isinstance(node, Scalar) and node.value is not None:
            value = self.kind.take(node, path, problems)
            return WRONG if value is WRONG else (value,)
        if not isinstance(node, Items):
            return expected("a list", node, path, problems)
        if len(node.items) > self.items_max:
            problems.error(node.place, path, f"a list here has at most {self.items_max} items")
            return WRONG
        values = [self.kind.take(item, f"{path}[{at}]", problems) for at, item in enumerate(node.items)]
        if self.distinct:
            self._say_twice(node, path, problems)
        return WRONG if any(value is WRONG for value in values) else tuple(values)

    def _say_twice(self, node: Items, path: str, problems: Problems) -> None:
        seen: dict[str, Place] = {}
        for at, item in enumerate(node.items):
            if not isinstance(item, Scalar):
                continue
            if item.text in seen:
                message = f"{item.text} stands here twice; the first is at {seen[item.text]}"
                problems.error(item.place, f"{path}[{at}]", message, "delete one of them")
            seen.setdefault(item.text, item.place)

    def schema(self) -> Schema:
        unique = {"uniqueItems": True} if self.distinct else {}
        listed = {"type": "array", "items": self.kind.schema(), "maxItems": self.items_max, **unique}
        return {"anyOf": [self.kind.schema(), listed]} if self.one_too else listed


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping whose keys the writer chooses."""

    names: Text
    kind: Kind
    entries_max: int = 1_000
    entries_min: int = 0
    hint: str | None = None  # for who wrote something else

    def take(self, node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node, Entries):
            return expected("a mapping", node, path, problems, self.hint)
        if not self.entries_min <= len(node.entries) <= self.entries_max:
            message = f"expected {self.entries_min} to {self.entries_max} entries, found {len(node.entries)}"
            problems.error(node.place, path, message)
            return WRONG
        values = {key: self._entry(key, node, path, problems) for key in node.entries}
        return WRONG if any(value is WRONG for value in values.values()) else values

    def _entry(self, key: str, node: Entries, path: str, problems: Problems) -> Any:
        entry = node.entries[key]
        is_name = self.names.fits(entry.key, f"{path}.{key}", problems)
        if self.names.is_name:
            warn_of_word(entry.key, f"{path}.{key}", problems)
        value = self.kind.take(entry.node, f"{path}.{key}", problems)
        return value if is_name else WRONG

    def schema(self) -> Schema:
        names = {key: value for key, value in self.names.schema().items() if key != "type"}
        least = {"minProperties": self.entries_min} if self.entries_min else {}
        return {
            "type": "object",
            **least,
            "maxProperties": self.entries_max,
            "propertyNames": names,
            "additionalProperties": self.kind.schema(),
        }


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a record: its kind, and a sentence about it."""

    name: str
    kind: Kind
    about: str
    required: bool = False
    means: str = ""  # the key that this is another spelling of

    @property
    def field(self) -> str:
        return self.means or self.name


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known keys. Values are given by the name that a key means."""

    keys: tuple[Key, ...]
    not_offered: Mapping[str, str] = field(default_factory=dict)  # in the public format: what it is about

    def take(self, node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node, Entries):
            return expected("a mapping", node, path, problems)
        known = {key.name: key for key in self.keys}
        values: dict[str, Any] = {}
        spelt: dict[str, str] = {}
        for name, entry in node.entries.items():
            at = f"{path}.{name}" if path else name
            if name not in known:
                self._stranger(entry.key, at, problems)
                continue
            key = known[name]
            if key.field in spelt:
                message = f"{name} says the same as {spelt[key.field]}"
                problems.error(entry.key.place, at, message, "delete one of them")
            spelt[key.field] = name
            values[key.field] = key.kind.take(entry.node, at, problems)
        self._say_missing(node, path, spelt, problems)
        return values

    def _stranger(self, key: Scalar, path: str, problems: Problems) -> None:
        about = self.not_offered.get(key.text)
        if about is not None:
            problems.warn(key.place, path, f"{key.text} is not acted upon: {about}")
            return
        known = [known.name for known in self.keys]
        problems.error(
            key.place, path, f"{shortened(key.text) or 'an empty key'} is not a key here", did_you_mean(key.text, known)
        )

    def _say_missing(self, node: Entries, path: str, spelt: Mapping[str, str], problems: Problems) -> None:
        for key in self.keys:
            if key.required and not key.means and key.field not in spelt:
                strangers = [name for name in node.entries if name not in spelt.values()]
                if likely(key.name, strangers) is None:  # else it is misspelt, and that has been said
                    problems.error(node.place, path, f"{key.name} is missing", f"it is {key.about}")

    def schema(self) -> Schema:
        offered = {key.name: {**key.kind.schema(), "description": key.about} for key in self.keys}
        others = {name: {"description": f"not acted upon: {about}"} for name, about in self.not_offered.items()}
        required = [key.name for key in self.keys if key.required and not key.means]
        twins = [{"not": {"required": [key.means, key.name]}} for key in self.keys if key.means]
        return {
            "type": "object",
            "properties": {**offered, **others},
            "additionalProperties": False,
            **({"required": required} if required else {}),
            **({"allOf": twins} if twins else {}),
        }
