"""The small language of `skip_when`. Pure, and nothing in it can be called.

    fetch.count == 0
    not fetch.found and (check.level in ["low", "none"] or check.score < 0.5)

A name is `step.key`, or `step.key.key` for what is inside a value; what is not there is null. `==` compares all things,
unlike things are not equal; `<` and its kin compare two numbers or two texts. What is null, false, 0 or empty does not
hold.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from openintent.workflows.spec import NAME

CHARS_MAX: Final = 1_000
DEPTH_MAX: Final = 20
INTEGER_DIGITS_MAX: Final = 18

WORDS: Final = frozenset({"and", "or", "not", "in"})
CONSTANTS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None}
ORDERS: Final = frozenset({"<", "<=", ">", ">="})
COMPARISONS: Final = frozenset({"==", "!=", *ORDERS})
TOKEN: Final = re.compile(
    r"""(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?(?![A-Za-z0-9_.-]))
    |(?P<name>[A-Za-z0-9_$][^\s()\[\],<>=!&|'"]*)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<sign>==|!=|<=|>=|[<>()\[\],])""",
    re.VERBOSE | re.DOTALL,
)
BLANKS: Final = re.compile(r"\s*")
ESCAPES: Final[Mapping[str, str]] = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
UNESCAPED: Final = {ord(letter): f"\\{sign}" for sign, letter in ESCAPES.items() if letter != "'"}
# How other languages write it.
MEANT: Final[Mapping[str, str]] = {"=": "==", "&": "and", "|": "or", "!": "not"}
MEANT_WORDS: Final[Mapping[str, str]] = {
    "AND": "and",
    "OR": "or",
    "NOT": "not",
    "IN": "in",
    "True": "true",
    "False": "false",
    "None": "null",
    "none": "null",
    "nil": "null",
}

Constant: TypeAlias = str | int | float | bool | None
Outputs: TypeAlias = Mapping[str, Mapping[str, Any]]


class BadExpression(ValueError):
    """It cannot be read; `column` counts from 1."""

    def __init__(self, message: str, column: int, hint: str | None = None) -> None:
        super().__init__(f"{message} (at character {column})")
        self.message = message
        self.column = column
        self.hint = hint


# What an expression is made of


@dataclass(frozen=True, slots=True)
class Literal:
    value: Constant | tuple[Constant, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(_written, self.value))}]" if isinstance(self.value, tuple) else _written(self.value)


@dataclass(frozen=True, slots=True)
class Name:
    step: str
    path: tuple[str, ...]
    column: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return ".".join([self.step, *self.path])


@dataclass(frozen=True, slots=True)
class Not:
    part: "Part"

    def __str__(self) -> str:
        return f"not {_nested(self.part)}"


@dataclass(frozen=True, slots=True)
class Compare:
    left: "Part"
    sign: str  # one of COMPARISONS, `in` or `not in`
    right: "Part"

    def __str__(self) -> str:
        return f"{_nested(self.left)} {self.sign} {_nested(self.right)}"


@dataclass(frozen=True, slots=True)
class Join:
    word: str  # `and` or `or`
    parts: tuple["Part", ...]

    def __str__(self) -> str:
        return f" {self.word} ".join(map(_nested, self.parts))


Part: TypeAlias = Literal | Name | Not | Compare | Join


def _written(value: Constant) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    return f'"{value.translate(UNESCAPED)}"'


def _nested(part: Part) -> str:
    return str(part) if isinstance(part, Literal | Name) else f"({part})"


@dataclass(frozen=True, slots=True)
class Expression:
    part: Part
    names: tuple[Name, ...]  # in the order of the text

    def __str__(self) -> str:
        return str(self.part)

    def holds(self, outputs: Outputs) -> bool:
        return bool(_value(self.part, outputs))


def holds(text: str, outputs: Outputs) -> bool:
    """Whether it holds with these outputs. `ValueError` if it cannot be read, or compares what cannot be compared."""
    return parse(text).holds(outputs)


# Reading


def parse(text: str) -> Expression:
    if len(text) > CHARS_MAX:
        raise BadExpression(f"an expression has at most {CHARS_MAX} characters", CHARS_MAX + 1)
    return _Parser(text).whole()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # number, name, text, sign or end
    text: str
    column: int


def _tokens(text: str) -> Iterator[_Token]:
    at = BLANKS.match(text).end()  # type: ignore[union-attr]  # it matches nothing, too
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            meant = MEANT.get(text[at])
            shown = "a quote that is not closed" if text[at] in "'\"" else f"{text[at]!r}, which means nothing here"
            raise BadExpression(f"found {shown}", at + 1, f"write {meant}" if meant else None)
        assert found.lastgroup is not None
        yield _Token(found.lastgroup, found[0], at + 1)
        at = BLANKS.match(text, found.end()).end()  # type: ignore[union-attr]  # as above
    yield _Token("end", "", len(text) + 1)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0
        self._names: list[Name] = []

    def whole(self) -> Expression:
        part = self._joined("or")
        if self._now.kind != "end":
            raise self._wrong("expected and, or or the end")
        return Expression(part, tuple(self._names))

    # Tokens

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _is(self, *words: str) -> bool:
        return self._now.kind in ("name", "sign") and self._now.text in words

    def _take(self) -> _Token:
        token = self._now
        self._at += 1
        return token

    def _wrong(self, message: str, hint: str | None = None) -> BadExpression:
        token = self._now
        found = "the end" if token.kind == "end" else token.text
        if hint is None and token.kind == "name" and token.text in MEANT_WORDS:
            hint = f"write {MEANT_WORDS[token.text]}"
        return BadExpression(f"{message}, found {found}", token.column, hint)

    # Grammar, the loosest first

    def _joined(self, word: str) -> Part:
        inner = self._negated if word == "and" else self._conjunction
        parts = [inner()]
        while self._is(word):
            self._take()
            parts.append(inner())
        return parts[0] if len(parts) == 1 else Join(word, tuple(parts))

    def _conjunction(self) -> Part:
        return self._joined("and")

    def _negated(self) -> Part:
        if not self._is("not"):
            return self._comparison()
        self._deeper()
        self._take()
        part = Not(self._negated())
        self._depth -= 1
        return part

    def _comparison(self) -> Part:
        left = self._operand()
        sign = self._sign()
        if sign is None:
            return left
        if sign.endswith("in") and not self._is("["):
            raise self._wrong("expected a list", 'as in: check.level in ["low", "none"]')
        compared = Compare(left, sign, self._list() if sign.endswith("in") else self._operand())
        if self._now.kind == "sign" and self._now.text in COMPARISONS:
            raise self._wrong("two things are compared at a time", "join two comparisons with and")
        return compared

    def _sign(self) -> str | None:
        if self._is(*COMPARISONS, "in"):
            return self._take().text
        following = self._tokens[self._at + 1] if self._is("not") else None
        if following is None or following.kind != "name" or following.text != "in":
            return None
        self._at += 2
        return "not in"

    def _operand(self) -> Part:
        if self._is("("):
            self._deeper()
            self._take()
            part = self._joined("or")
            if not self._is(")"):
                raise self._wrong("expected )")
            self._take()
            self._depth -= 1
            return part
        if self._is("["):
            raise self._wrong("a list stands behind in")
        return self._name() if self._is_reference() else Literal(self._constant())

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._wrong(f"at most {DEPTH_MAX} brackets and nots stand in each other")

    def _list(self) -> Literal:
        self._take()
        values: list[Constant] = []
        while not self._is("]"):
            values.append(self._constant())
            if not self._is(",", "]"):
                raise self._wrong("expected , or ]")
            if self._is(","):
                self._take()
        self._take()
        return Literal(tuple(values))

    # Names and constants

    def _is_reference(self) -> bool:
        return self._now.kind == "name" and "." in self._now.text

    def _name(self) -> Name:
        step, *path = self._now.text.split(".")
        if NAME.fullmatch(step) is None or not all(path):
            raise self._wrong("expected step.key")
        name = Name(step, tuple(path), self._take().column)
        self._names.append(name)
        return name

    def _constant(self) -> Constant:
        token = self._now
        if token.kind == "text":
            return self._text()
        if token.kind == "number":
            return self._number()
        if token.kind == "name" and token.text in CONSTANTS:
            return CONSTANTS[self._take().text]
        if token.kind == "name" and token.text not in WORDS | set(MEANT_WORDS):
            raise self._wrong("expected step.key or a value", f'a text stands in quotes: "{token.text}"')
        raise self._wrong("expected step.key or a value")

    def _text(self) -> str:
        token = self._take()
        return re.sub(r"\\(.)", lambda found: _unescaped(found, token), token.text[1:-1], flags=re.DOTALL)

    def _number(self) -> int | float:
        token = self._now
        if token.text.lstrip("-").isdigit():
            if len(token.text) > INTEGER_DIGITS_MAX:
                raise self._wrong("this number is too large")
            return int(self._take().text)
        number = float(token.text)
        if number in (float("inf"), float("-inf")):
            raise self._wrong("this number is too large")
        self._take()
        return number


def _unescaped(found: re.Match[str], token: _Token) -> str:
    if found[1] not in ESCAPES:
        raise BadExpression(f"\\{found[1]} means nothing here", token.column + found.start() + 1, "write \\\\ for a \\")
    return ESCAPES[found[1]]


# What it comes to


def _value(part: Part, outputs: Outputs) -> Any:
    match part:
        case Literal():
            return part.value
        case Name():
            return _found(part, outputs)
        case Not():
            return not _value(part.part, outputs)
        case Compare():
            return _compared(part, _value(part.left, outputs), _value(part.right, outputs))
        case Join():
            stop = part.word == "or"
            return stop if any(bool(_value(inner, outputs)) is stop for inner in part.parts) else not stop


def _found(name: Name, outputs: Outputs) -> Any:
    found: Any = outputs.get(name.step)
    for key in name.path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _compared(part: Compare, left: Any, right: Any) -> bool:
    match part.sign:
        case "==":
            return _equal(left, right)
        case "!=":
            return not _equal(left, right)
        case "in":
            return any(_equal(left, value) for value in right)
        case "not in":
            return not any(_equal(left, value) for value in right)
    if not (_is_number(left) and _is_number(right)) and not (isinstance(left, str) and isinstance(right, str)):
        raise ValueError(f"{part} cannot be said: {_kind(left)} and {_kind(right)} have no order")
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[part.sign])


def _equal(left: Any, right: Any) -> bool:
    # To Python true is 1.
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if _is_number(value):
        return "a number"
    return "a text" if isinstance(value, str) else "a list" if isinstance(value, list | tuple) else "a mapping"
