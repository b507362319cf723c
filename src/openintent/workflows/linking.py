"""What the parts of a workflow file say of each other: steps that depend on steps, values that come from steps."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from openintent.retrying import Retry
from openintent.workflows import expression
from openintent.workflows.problems import Place, Problems, did_you_mean, likely
from openintent.workflows.reading import Entries, Items, Node, Scalar
from openintent.workflows.spec import INITIAL_STATE, TRIGGER
from openintent.workflows.tables import OUTPUT_TYPES

SOURCES: Final = (TRIGGER, INITIAL_STATE)


class Word(NamedTuple):
    """A text in the file, and where."""

    text: str
    place: Place
    path: str


def check(root: Entries, problems: Problems) -> None:
    steps = root.node("workflow")
    if not isinstance(steps, Entries):
        return
    nodes = {name: entry.node for name, entry in steps.entries.items() if isinstance(entry.node, Entries)}
    links = _Links(list(steps.entries), nodes, problems)
    for name, node in nodes.items():
        links.check_dependencies(name)
        links.check_inputs(name, node)
        links.check_skip_when(name, node)
        _check_outputs(f"workflow.{name}.outputs", node.node("outputs"), problems)
        _check_retry(f"workflow.{name}.retry", node, problems)
        _check_scope(f"workflow.{name}.leasing.scope", node.node("leasing"), problems)
    links.check_cycles()
    _check_agents(root.node("agents"), nodes, problems)


def _words(node: Node | None, path: str) -> Iterator[Word]:
    """The texts of a list, or the one that stands for one."""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        yield Word(node.value, node.place, path)
    elif isinstance(node, Items):
        for at, item in enumerate(node.items):
            yield from _words(item, f"{path}[{at}]") if isinstance(item, Scalar) else ()


def _word(node: Node | None, key: str, path: str) -> Word | None:
    if not isinstance(node, Entries):
        return None
    return next((word for word in _words(node.node(key), f"{path}.{key}") if "[" not in word.path), None)


class _Links:
    def __init__(self, names: list[str], nodes: Mapping[str, Entries], problems: Problems) -> None:
        self._names = names
        self._nodes = nodes
        self._problems = problems
        self._reached: dict[str, set[str]] = {}
        self._needs = {
            name: list(_words(node.node("depends_on"), f"workflow.{name}.depends_on")) for name, node in nodes.items()
        }

    # Dependencies

    def check_dependencies(self, step: str) -> None:
        for word in self._needs[step]:
            if word.text == step:
                self._problems.error(word.place, word.path, f"{step} depends on itself", "delete it")
            elif word.text not in self._names:
                hint = did_you_mean(word.text, [name for name in self._names if name != step])
                self._problems.error(word.place, word.path, f"there is no step {word.text}", hint)

    def check_cycles(self) -> None:
        """Each one is said once, at the dependency that closes it."""
        done: set[str] = set()
        for step in self._nodes:
            if step not in done:
                self._walk(step, done)

    def _walk(self, start: str, done: set[str]) -> None:
        way = {start: self._edges(start)}  # from the start to where we are; a chain of steps may be long
        while way:
            step, edges = next(reversed(way.items()))
            word = next(edges, None)
            if word is None:
                done.add(step)
                del way[step]
            elif word.text in way:
                steps = list(way)
                cycle = " -> ".join([*steps[steps.index(word.text) :], word.text])
                message = f"the steps wait for each other: {cycle}"
                self._problems.error(word.place, word.path, message, "delete one of these dependencies")
            elif word.text not in done:
                way[word.text] = self._edges(word.text)

    def _edges(self, step: str) -> Iterator[Word]:
        return (word for word in self._needs[step] if word.text in self._nodes and word.text != step)

    def _before(self, step: str) -> set[str]:
        """All that it depends on, directly or not."""
        if step not in self._reached:
            self._reached[step] = self._reach(step)
        return self._reached[step]

    def _reach(self, step: str) -> set[str]:
        reached: set[str] = set()
        ahead = [step]
        while ahead:
            new = [word.text for word in self._needs.get(ahead.pop(), ()) if word.text not in reached]
            reached.update(new)
            ahead += new
        return reached

    # Values

    def check_inputs(self, step: str, node: Entries) -> None:
        inputs = node.node("inputs")
        if not isinstance(inputs, Entries):
            return
        for key, entry in inputs.entries.items():
            for word in _words(entry.node, f"workflow.{step}.inputs.{key}"):
                self._check_source(step, node, word)

    def _check_source(self, step: str, node: Entries, word: Word) -> None:
        where, dot, key = word.text.partition(".")
        if not where or not dot or not key:  # it is no source at all, and that has been said
            return
        if where == INITIAL_STATE:
            state = node.node("initial_state")
            known = list(state.entries) if isinstance(state, Entries) else []
            if key.partition(".")[0] not in known:
                message = f"{step} has no {key.partition('.')[0]} in its initial_state"
                self._problems.error(word.place, word.path, message, did_you_mean(key, known))
        elif where.startswith("$"):
            if where != TRIGGER:
                message = f"{where} is nothing that a value can come from"
                self._problems.error(word.place, word.path, message, did_you_mean(where, SOURCES))
        else:
            self._check_reference(step, where, key, word)

    def _check_reference(self, step: str, other: str, key: str, word: Word) -> None:
        say = self._problems.error
        if other == step:
            say(word.place, word.path, f"{step} cannot use what itself will leave", "name a step before it")
        elif other not in self._names:
            hint = did_you_mean(other, [name for name in self._names if name != step])
            say(word.place, word.path, f"there is no step {other}", hint)
        elif other not in self._before(step):
            message = f"{step} does not depend on {other}, which may not have ended by then"
            say(word.place, word.path, message, f"add {other} to depends_on")
        else:
            self._check_output(other, key.partition(".")[0], word)

    def _check_output(self, step: str, key: str, word: Word) -> None:
        declared = _declared(self._nodes.get(step))
        if declared is not None and key not in declared:
            hint = did_you_mean(key, declared)
            self._problems.error(word.place, word.path, f"{step} does not list {key} among its outputs", hint)

    def check_skip_when(self, step: str, node: Entries) -> None:
        text = node.node("skip_when")
        if not isinstance(text, Scalar) or not isinstance(text.value, str) or not text.value:
            return
        path = f"workflow.{step}.skip_when"
        try:
            parsed = expression.parse(text.value)
        except expression.BadExpression as wrong:
            self._problems.error(text.inside(wrong.column - 1), path, wrong.message, wrong.hint)
            return
        for name in parsed.names:
            self._check_reference(step, name.step, name.path[0], Word(str(name), text.inside(name.column - 1), path))


def _declared(step: Entries | None) -> list[str] | None:
    """The outputs that a step lists; None if it does not say."""
    outputs = None if step is None else step.node("outputs")
    if isinstance(outputs, Entries):
        return list(outputs.entries)
    return [word.text for word in _words(outputs, "")] if isinstance(outputs, Items) else None


# What is allowed, and yet hardly meant


def _check_outputs(path: str, outputs: Node | None, problems: Problems) -> None:
    if not isinstance(outputs, Entries):
        return
    for key, entry in outputs.entries.items():
        kind = entry.node.node("type") if isinstance(entry.node, Entries) else entry.node
        for word in _words(kind, f"{path}.{key}"):
            # A type with a capital letter is one of the writer's own.
            if word.text not in OUTPUT_TYPES and not word.text[:1].isupper():
                message = f"{word.text} is no type that is known"
                problems.warn(word.place, word.path, message, did_you_mean(word.text, OUTPUT_TYPES))


def _check_retry(path: str, step: Entries, problems: Problems) -> None:
    retry = step.node("retry")
    if not isinstance(retry, Entries):
        return
    base, base_s = _seconds(retry, "base_delay_seconds", "initial_delay_ms")
    _, most_s = _seconds(retry, "max_delay_seconds", "max_delay_ms")
    bound_s = Retry().max_delay_seconds if most_s is None else most_s
    if base is not None and base_s is not None and base_s > bound_s:
        message = f"no delay is longer than {bound_s:g} s, so this one is not either"
        problems.warn(base.place, path, message, "set max_delay_seconds to the longest delay")
    other, own = _word(retry, "fallback_agent", path), _word(step, "assign", path)
    if other is not None and own is not None and other.text == own.text:
        problems.warn(other.place, other.path, f"{own.text} has the step already", "name another agent")


def _seconds(retry: Entries, seconds: str, milliseconds: str) -> tuple[Scalar | None, float | None]:
    for key, per in ((seconds, 1), (milliseconds, 1000)):
        node = retry.node(key)
        if isinstance(node, Scalar) and isinstance(node.value, int | float):
            return node, node.value / per
    return None, None


def _check_scope(path: str, leasing: Node | None, problems: Problems) -> None:
    scope = _word(leasing, "scope", path)
    if scope is not None and "{{" in scope.text:
        problems.warn(scope.place, path, "nothing is put in for {{...}}: the scope is taken as it stands")


def _check_agents(agents: Node | None, steps: Mapping[str, Entries], problems: Problems) -> None:
    if not isinstance(agents, Entries):
        return
    for name, step in steps.items():
        path = f"workflow.{name}"
        for word in (_word(step, "assign", path), _word(step.node("retry"), "fallback_agent", f"{path}.retry")):
            if word is not None and word.text not in agents.entries:
                close = likely(word.text, agents.entries)
                hint = f"did you mean {close}?" if close else "list it there, or leave agents out"
                problems.warn(word.place, word.path, f"{word.text} is not listed under agents", hint)
