"""Reading YAML: from text to plain values, each with its place in the file.

It is built from the parser's events, one at a time, so that a file ends at the first bound that it reaches: nothing is
expanded, and nothing is made of a document before it is known to be small. Anchors, aliases and tags are refused where
they stand; a file of nothing but aliases of aliases is as large as it is long.

Plain words mean what YAML 1.2 says: `true` and `false` are booleans; `yes`, `no`, `on` and `off` are texts.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml

from openintent.workflows.problems import TOP, Place, Problem, Problems

BYTES_MAX: Final = 1_048_576
NODES_MAX: Final = 30_000
DEPTH_MAX: Final = 32
TOO_LONG: Final = Problem(1, 1, "", f"the file has more than {BYTES_MAX} bytes", "split the workflow into several")
INTEGER_MAX: Final = 2**63 - 1  # what the server's own records can hold
SHOWN_CHARS_MAX: Final = 40

# The one in C is ten times as fast, and lets JSON be indented with tabs; else both say the same.
LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
BOOLEANS: Final = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
# Booleans to YAML 1.1, and so to many readers and in many heads.
ONCE_BOOLEANS: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"}
INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
ENDLESS: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
# What no YAML may have in it: control characters, and halves of characters.
FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LINE_END: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Scalar:
    place: Place
    value: str | int | float | bool | None
    text: str
    plain: bool = True  # without quotes
    one_line: bool = True

    def inside(self, offset: int) -> Place:
        """The place of a character of the text; of one with more lines than one, where it begins."""
        quote = 0 if self.plain else 1
        return Place(self.place.line, self.place.column + quote + offset) if self.one_line else self.place


@dataclass(frozen=True, slots=True)
class Items:
    place: Place
    items: list["Node"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Entry:
    key: Scalar
    node: "Node"


@dataclass(frozen=True, slots=True)
class Entries:
    place: Place
    entries: dict[str, Entry] = field(default_factory=dict)

    def node(self, key: str) -> "Node | None":
        entry = self.entries.get(key)
        return None if entry is None else entry.node


@dataclass(frozen=True, slots=True)
class Refused:
    """Here was something that is a problem already: no more is said of it."""

    place: Place


Node: TypeAlias = Scalar | Items | Entries | Refused


def plain(node: Node) -> Any:
    """The value without its places."""
    match node:
        case Items():
            return [plain(item) for item in node.items]
        case Entries():
            return {key: plain(entry.node) for key, entry in node.entries.items()}
        case Scalar():
            return node.value
        case Refused():
            return None


def described(node: Node) -> str:
    match node:
        case Items():
            return "a list"
        case Entries():
            return "a mapping"
        case Refused():
            return "something refused"
    value = node.value
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    return f'the text "{shortened(node.text)}"' if isinstance(value, str) else f"the number {shortened(node.text)}"


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS_MAX else text[:SHOWN_CHARS_MAX] + "..."


# From text to a tree


class Stop(Exception):
    """The file cannot be read on from here; what is wrong has been said."""


def read(text: str, problems: Problems) -> Node | None:
    """The file's only document; None if it cannot be read as a whole. Everything that was refused is a problem."""
    try:
        _check_text(text, problems)
        tree = _Tree(problems)
        for event in _events(text, problems):
            tree.take(event)
    except Stop:
        return None
    return tree.root


def _check_text(text: str, problems: Problems) -> None:
    if len(text) > BYTES_MAX or len(text.encode("utf-8", "surrogatepass")) > BYTES_MAX:
        problems.add(TOO_LONG)
        raise Stop
    bad = FORBIDDEN.search(text.removeprefix("\ufeff"))
    if bad is not None:
        where = place_of(text.removeprefix("\ufeff"), bad.start())
        problems.error(where, "", f"the character U+{ord(bad[0]):04X} may not stand in YAML", "delete it")
        raise Stop


def place_of(text: str, offset: int) -> Place:
    ends = [end.end() for end in LINE_END.finditer(text, 0, offset)]
    return Place(len(ends) + 1, offset - (ends[-1] if ends else 0) + 1)


def _events(text: str, problems: Problems) -> Iterator[Any]:
    try:
        yield from yaml.parse(text, Loader=LOADER)
    except yaml.MarkedYAMLError as wrong:
        mark = wrong.problem_mark or wrong.context_mark
        place = TOP if mark is None else _place(mark)
        problems.error(place, "", f"this is not YAML: {wrong.problem or wrong.context}", _syntax_hint(text, wrong))
        raise Stop from None
    except yaml.YAMLError as wrong:
        problems.error(TOP, "", f"this is not YAML: {wrong}")
        raise Stop from None


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)


NOT_CLOSED: Final = ("a quote is not closed", "a comma is missing, or a bracket is not closed")
SYNTAX_HINTS: Final = {
    "mapping values are not allowed": 'is the indentation right? A text with ": " in it needs quotes',
    "Unicode character escape code": "write the character itself, or \\U and eight digits",
    "could not find expected ':'": "after a key comes a colon and a blank",
    "found unexpected end of stream": NOT_CLOSED[0],
    "did not find expected key": "is the indentation right? All keys of one mapping begin in the same column",
    "expected <block end>": "is the indentation right? All keys of one mapping begin in the same column",
    "expected ',' or": NOT_CLOSED[1],
    "did not find expected '-' indicator": "is the indentation right? All items of one list begin in the same column",
}


def _syntax_hint(text: str, wrong: yaml.MarkedYAMLError) -> str | None:
    mark = wrong.problem_mark
    lines = LINE_END.split(text.removeprefix("\ufeff"))
    rest = lines[mark.line][mark.column :] if mark is not None and mark.line < len(lines) else ""
    if rest.startswith("\t"):
        return "YAML is indented with blanks, never with tabs"
    if rest[:1] in ("@", "`", "%"):
        return f"a text that begins with {rest[0]} needs quotes"
    hint = next((hint for words, hint in SYNTAX_HINTS.items() if words in (wrong.problem or "")), None)
    if hint is not None and hint in NOT_CLOSED and wrong.context_mark is not None:
        return f"{hint}; it begins at {_place(wrong.context_mark)}"
    return hint


class _Open:
    """A list or a mapping that has not ended."""

    def __init__(self, node: Items | Entries) -> None:
        self.node = node
        self.key: Node | None = None  # whose value comes next


class _Tree:
    def __init__(self, problems: Problems) -> None:
        self.root: Node | None = None
        self._problems = problems
        self._open: list[_Open] = []
        self._nodes = 0
        self._documents = 0

    def take(self, event: Any) -> None:
        handle = _HANDLERS.get(type(event))
        if handle is not None:
            handle(self, event)

    def value(self, event: Any) -> None:
        self._add(self._scalar(event))

    def begin_list(self, event: Any) -> None:
        self._begin(Items(self._checked(event)))

    def begin_mapping(self, event: Any) -> None:
        self._begin(Entries(self._checked(event)))

    def end(self, _event: Any) -> None:
        self._add(self._open.pop().node)

    def alias(self, event: Any) -> None:
        place = self._checked(event)
        message = f"the alias *{event.anchor} is not known here"
        self._refuse(place, message, "write the value out; a text that begins with * needs quotes")
        self._add(Refused(place))

    def document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            self._stop(_place(event.start_mark), "a second document begins here", "one workflow is one file")

    def end_of_file(self, _event: Any) -> None:
        if self.root is None:
            self._problems.error(TOP, "", "the file is empty", 'begin with: openintent: "1.0"')

    # Where a node goes

    def _begin(self, node: Items | Entries) -> None:
        if len(self._open) >= DEPTH_MAX:
            self._stop(node.place, f"lists and mappings stand in each other more than {DEPTH_MAX} deep")
        self._open.append(_Open(node))

    def _add(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        inner = self._open[-1]
        if isinstance(inner.node, Items):
            inner.node.items.append(node)
        elif inner.key is None:
            inner.key = node
        else:
            self._enter(inner.node, inner.key, node)
            inner.key = None

    def _enter(self, mapping: Entries, key: Node, node: Node) -> None:
        if not isinstance(key, Scalar):
            if not isinstance(key, Refused):
                self._refuse(key.place, f"{described(key)} is no key", "a key is a plain word")
            return
        first = mapping.entries.get(key.text)
        if first is not None:
            message = f"{key.text} stands here twice; the first is at {first.key.place}"
            self._refuse(key.place, message, "delete one of them")
        elif key.plain and key.text == "<<":
            self._refuse(key.place, "<< is not known here", "write the keys out")
        else:
            mapping.entries[key.text] = Entry(key, node)

    def _path(self) -> str:
        return ".".join(inner.key.text for inner in self._open if isinstance(inner.key, Scalar))

    # What a node is

    def _checked(self, event: Any) -> Place:
        """Count it, and refuse what it has on it."""
        place = _place(event.start_mark)
        self._nodes += 1
        if self._nodes > NODES_MAX:
            self._stop(place, f"the file has more than {NODES_MAX} values", "split the workflow into several")
        if isinstance(event, yaml.AliasEvent):
            return place
        if event.anchor is not None:
            message = f"the anchor &{event.anchor} is not known here"
            self._refuse(place, message, "write the value out wherever it is needed")
        if event.tag is not None:
            self._refuse(place, f"the tag {event.tag} is not known here", "leave it out")
        return place

    def _scalar(self, event: Any) -> Node:
        place, is_plain = self._checked(event), bool(event.implicit[0])
        value: Any = event.value
        if is_plain:
            try:
                value = _resolved(event.value)
            except ValueError as wrong:
                self._refuse(place, str(wrong), "if it is a text, put it into quotes")
                return Refused(place)
        if not _is_whole(event.value):
            self._refuse(place, "this text has half a character in it", "delete the escape")
            return Refused(place)
        one_line = event.start_mark.line == event.end_mark.line
        return Scalar(place, value, event.value, plain=is_plain, one_line=one_line)

    def _refuse(self, place: Place, message: str, hint: str) -> None:
        self._problems.error(place, self._path(), message, hint)
        if self._problems.left_out:  # nobody will be told of more
            raise Stop

    def _stop(self, place: Place, message: str, hint: str | None = None) -> None:
        self._problems.error(place, "", message, hint)
        raise Stop


_HANDLERS: Final[Mapping[type, Callable[[_Tree, Any], None]]] = {
    yaml.ScalarEvent: _Tree.value,
    yaml.SequenceStartEvent: _Tree.begin_list,
    yaml.MappingStartEvent: _Tree.begin_mapping,
    yaml.SequenceEndEvent: _Tree.end,
    yaml.MappingEndEvent: _Tree.end,
    yaml.AliasEvent: _Tree.alias,
    yaml.DocumentStartEvent: _Tree.document,
    yaml.StreamEndEvent: _Tree.end_of_file,
}


def _resolved(text: str) -> str | int | float | bool | None:
    """What a plain word means. Raises `ValueError` for a number that nobody could keep."""
    if text in NULLS:
        return None
    if text in BOOLEANS:
        return BOOLEANS[text]
    if INTEGER.fullmatch(text):
        return _integer(text)
    if ENDLESS.fullmatch(text):
        raise ValueError(f"{text} is no number here")
    if FLOAT.fullmatch(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise ValueError("this number is too large")
        return number
    return text


def _integer(text: str) -> int:
    # Longer ones are not even turned into numbers: that takes time that grows with the square of their length.
    number = int(text, 0 if text[:2] in ("0o", "0x") else 10) if len(text) <= 32 else INTEGER_MAX + 1
    if abs(number) > INTEGER_MAX:
        raise ValueError("this number is too large")
    return number


def _is_whole(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)
