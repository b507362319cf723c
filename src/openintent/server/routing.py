"""Which handler serves a method and a raw path.

Paths are matched segment by segment before they are percent-decoded, so that a name may contain an encoded slash; each
name is decoded once. Where a path leads without its last segment is remembered: most requests go where others went.
"""

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec

from openintent.server.urgency import Urgency, urgency

Handler = Callable[..., Awaitable[None] | None]  # service, exchange, then the path's names

NAME: Final = "{}"  # in a pattern
ANY: Final = "/"  # what stands for it in the tree: no segment is like this
JSON: Final = "application/json"
PLACES_MAX: Final = 4_096  # that are remembered,
PLACE_CHARS_MAX: Final = 512  # of which each has at most
_STRAY_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")


class Route(msgspec.Struct, frozen=True):
    """A method and a pattern with its handler. The shapes are for those who describe the interface, and for callers."""

    method: str
    pattern: str
    handler: Handler
    says: str = ""  # what it does, in a few words
    hot: bool = False  # small, quick and frequent: may skip ASGI
    space: str | None = None  # what turns the first name into a space; "" where the path names none
    operator: bool = False  # only for keys with the operator's right
    open: bool = False  # for anybody, also without a key
    query: type | None = None
    body: type | None = None
    view: Any = None  # of the answer
    media: str = JSON  # of the answer; of a hot one it is JSON
    stream: bool = False  # the answer is a stream of events that does not end
    needs: tuple[str, ...] = ()  # headers without which it is refused
    reads: tuple[str, ...] = ()  # headers that make a difference if they are there
    codes: tuple[str, ...] = ()  # of refusals that are not common to all
    name: str = ""  # by which programs call it
    urgency: Urgency = Urgency.USUAL  # the router finds it out, and
    vital: bool = False  # whether it is vital


Place = tuple[dict[str, Any], list[str]]  # what may follow there, and the names on the way


class Match(msgspec.Struct):
    route: Route
    names: list[str]  # raw


class Way(msgspec.Struct, frozen=True):
    """The rest of the way to a hot route."""

    route: Route
    path: str
    names: tuple[str | None, ...]  # the arguments of its handler
    open: bool  # the last segment of the path is missing, and is the last argument too


class Door(msgspec.Struct, frozen=True):
    """A method and a path up to its last segment, all of it plain: the hot routes from there."""

    fixed: dict[bytes, Way | None]  # by the last segment; None where that leads elsewhere, or nowhere
    free: Way | None  # where the last segment is a name


class BadName(ValueError):
    """A name in the path cannot be one: not percent-encoded UTF-8, too long, or with control characters."""


class Router:
    """Patterns that begin with a slash are whole paths; all others are below `/api/v1/`, which is also `/v1/`."""

    def __init__(self, routes: list[Route]) -> None:
        self.routes = routes
        self._below_api: dict[str, Any] = {}
        self._at_root: dict[str, Any] = {}
        self._places: dict[str, Place] = {}
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        at_root = route.pattern.startswith("/")
        node = self._at_root if at_root else self._below_api
        for segment in route.pattern.removeprefix("/").split("/"):
            node = node.setdefault(ANY if segment == NAME else segment, {})
        found = urgency(route.method, route.pattern)
        route = msgspec.structs.replace(route, urgency=found, vital=found is Urgency.VITAL)
        node.setdefault("", {})[route.method] = route

    def find(self, method: str, path: str) -> Match | list[str] | None:
        """The match; the methods that this path has, if not this one; or None."""
        above, slash, last = path.rpartition("/")
        place = self._places.get(above) or self._descend(above)
        if place is None or not slash or not last:
            return self._find_any(method, path)
        node, names = place
        leaf = node.get(last)
        if leaf is None:
            leaf = node.get(ANY)
            if leaf is None:
                return self._find_any(method, path)
            names = [*names, last]
        methods: dict[str, Route] = leaf.get("", {})
        route = methods.get(method)
        if route is not None:
            return Match(route, names if names is not place[1] else names.copy())
        return self._find_any(method, path)

    def _find_any(self, method: str, path: str) -> Match | list[str] | None:
        """The same by every way there is: a name may read like a word, as that of an agent called `register`."""
        tree, *segments = self._tree_of(path)
        ways = list(_ways(tree, segments))
        matches = (Match(methods[method], names) for methods, names in ways if method in methods)
        return next(matches, None) or sorted({each for methods, _ in ways for each in methods}) or None

    def door(self, method: str, path: str) -> Door:
        """What can be asked there often. The path ends with the slash before its last segment."""
        node, names = self._descend(path[:-1]) or ({}, [])
        routes = {last: leaf.get("", {}).get(method) for last, leaf in node.items() if last}
        free = _way(routes.pop(ANY, None), path, names, is_open=True)
        return Door({last.encode(): _way(route, path + last, names) for last, route in routes.items()}, free)

    def _tree_of(self, above: str) -> tuple[Any, ...]:
        """The tree that the path is looked for in, and the way down."""
        root, *segments = above.split("/")
        if root:
            return ({},)
        if segments[:2] == ["api", "v1"]:
            return self._below_api, *segments[2:]
        if segments[:1] == ["v1"]:
            return self._below_api, *segments[1:]
        return self._at_root, *segments

    def _descend(self, above: str) -> Place | None:
        """Where this beginning of a path leads."""
        node, *segments = self._tree_of(above)
        names: list[str] = []
        for segment in segments:
            child = node.get(segment) if segment else None
            if child is None:
                child = node.get(ANY)
                if child is None or not segment:
                    return None
                names.append(segment)
            node = child
        if len(above) > PLACE_CHARS_MAX:
            return node, names
        if len(self._places) >= PLACES_MAX:
            self._places.clear()
        place = self._places[above] = (node, names)
        return place


def _ways(node: dict[str, Any], segments: list[str]) -> Iterator[tuple[dict[str, Route], list[str]]]:
    """What is at the ends of all ways down, and the names on each; words come before names."""
    if not segments:
        yield node.get("", {}), []
    elif segments[0]:
        first, *rest = segments
        for child, names in ((node.get(first), []), (node.get(ANY), [first])):
            for methods, more in () if child is None else _ways(child, rest):
                yield methods, [*names, *more]


def arguments(route: Route, names: list[str]) -> tuple[str | None, ...]:
    """What the route's handler is called with: the names, the first of them as the space that it stands for."""
    if route.space is None:
        return tuple(names)
    return (route.space + names[0], *names[1:]) if route.space else (None, *names)


def _way(route: Route | None, path: str, names: list[str], *, is_open: bool = False) -> Way | None:
    if route is None or not route.hot or (route.space and not names):  # the last: the end of the path is the space
        return None
    return Way(route, path, arguments(route, names), is_open)


def is_plain(path: str, *, chars_max: int) -> bool:
    """Whether every name in the path stands for itself, and is not too long: so it is with most."""
    return "%" not in path and len(path) <= chars_max and path.isascii() and path.isprintable()


def decoded(name: str, *, chars_max: int) -> str:
    """A name as its sender meant it."""
    if "%" in name or not name.isascii():
        name = _percent_decoded(name)
    if len(name) > chars_max or not name.isprintable():
        raise BadName(f"a name in the path has 1 to {chars_max} printable characters")
    return name


def _percent_decoded(name: str) -> str:
    if _STRAY_PERCENT.search(name) or not name.isascii():
        raise BadName(f"a name in the path is not percent-encoded: {name[:80]!r}")
    try:
        return unquote_to_bytes(name).decode()
    except UnicodeDecodeError as broken:
        raise BadName(f"a name in the path is not UTF-8: {name[:80]!r}") from broken
