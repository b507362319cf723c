"""Reading what stands after the question mark, into the shapes of `wire/queries.py`."""

from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from openintent.server import bodies, problems
from openintent.server.exchange import Exchange
from openintent.wire import PageQuery

T = TypeVar("T")


def decode(shape: type[T], exchange: Exchange) -> tuple[T, bytes]:
    """The query as a value of this shape, and a header line that names what had no effect.

    The last of repeated names counts, and an empty text is none.
    """
    given = dict(parse_qsl(exchange.query, keep_blank_values=True))
    fields = _fields(shape)  # type: ignore[arg-type]
    known = {name: value for name, value in given.items() if name in fields}
    faults: list[bodies.Fault] = []
    values: dict[str, Any] = {}
    for name, text in known.items():
        try:
            values[name] = _converted(text, fields[name])
        except ValueError as wrong:
            faults.append(([name], str(wrong), "value"))
    if faults:
        raise problems.invalid(*faults, part="query")
    return shape(**values), bodies.ignored_line(given.keys() - known.keys())


@cache
def _fields(shape: type) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(shape)}


def _converted(text: str, kind: Any) -> Any:
    if get_origin(kind) is UnionType or get_origin(kind) is Union:  # with None, which is to be left out
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise ValueError(f"must be one of {', '.join(get_args(kind))}")
        return text
    bound = next((each for each in getattr(kind, "__metadata__", ()) if isinstance(each, Meta)), None)
    return text or None if bound is None else _whole(text, bound)


def _whole(text: str, bound: Meta) -> int:
    least, most = int(bound.ge or 0), int(bound.le or 0)
    if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
        return int(text)
    raise ValueError(f"must be a whole number from {least} to {most}")


def page(things: list[T], wanted: PageQuery) -> tuple[list[T], bytes]:
    """The part of a list that is asked for, and the header line that says where the next one begins."""
    end = wanted.offset + wanted.limit
    return things[wanted.offset : end], next_line(end, more=len(things) > end)


def next_line(offset: int, *, more: bool) -> bytes:
    """The header line that says where the next page begins, for lists that have no room for it in the body."""
    return b"x-next-offset: %d\r\n" % offset if more else b""
