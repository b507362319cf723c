"""A workflow as a picture: a tree for the terminal, or a graph for Mermaid and Graphviz."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from openintent.workflows.spec import Step, Workflow

BRANCH, LAST, PASS, BLANK = "├─ ", "└─ ", "│  ", "   "


def text(workflow: Workflow) -> str:
    """Each step once, below the step that it waits for longest; its other dependencies stand beside it."""
    parents = _parents(workflow)
    below: dict[str | None, list[str]] = {}
    for name, parent in parents.items():
        below.setdefault(parent, []).append(name)
    lines = [workflow.name]
    ahead = [(name, "", name == below[None][-1]) for name in reversed(below.get(None, []))]
    while ahead:
        name, indent, is_last = ahead.pop()
        lines.append(f"{indent}{LAST if is_last else BRANCH}{_line(workflow.by_name[name], parents[name])}")
        inner = indent + (BLANK if is_last else PASS)
        children = below.get(name, [])
        ahead += [(child, inner, child == children[-1]) for child in reversed(children)]
    return "\n".join(lines)


def _line(step: Step, parent: str | None) -> str:
    title = "" if step.title == step.name else f"  {step.title}"
    others = [name for name in step.depends_on if name != parent]
    also = f"  (also after {', '.join(others)})" if others else ""
    return f"{step.name}{title}  -> {step.assign}{also}"


def _parents(workflow: Workflow) -> dict[str, str | None]:
    levels = _levels(workflow)
    return {
        step.name: max(step.depends_on, key=levels.__getitem__) if step.depends_on else None for step in workflow.steps
    }


def _levels(workflow: Workflow) -> Mapping[str, int]:
    """How many steps at least come before each."""
    levels: dict[str, int] = {}
    ahead = list(reversed(workflow.steps))
    by_name = workflow.by_name
    while ahead:
        step = ahead.pop()
        open_ones = [by_name[name] for name in step.depends_on if name not in levels]
        if open_ones:
            ahead += [step, *open_ones]
        else:
            levels[step.name] = 1 + max((levels[name] for name in step.depends_on), default=-1)
    return levels


def mermaid(workflow: Workflow) -> str:
    ids = _ids(workflow)
    nodes = [f'  {ids[step.name]}["{_html(step.title)}<br/>{_html(step.assign)}"]' for step in workflow.steps]
    edges = [f"  {ids[before]} --> {ids[after]}" for before, after in _edges(workflow)]
    return "\n".join(["flowchart TD", *nodes, *edges])


def dot(workflow: Workflow) -> str:
    nodes = [f'  "{step.name}" [label="{_escaped(step.title)}\\n{_escaped(step.assign)}"];' for step in workflow.steps]
    edges = [f'  "{before}" -> "{after}";' for before, after in _edges(workflow)]
    return "\n".join([f'digraph "{_escaped(workflow.name)}" {{', "  node [shape=box];", *nodes, *edges, "}"])


def _ids(workflow: Workflow) -> dict[str, str]:
    # To Mermaid some names are words of its own, like `end`.
    return {step.name: f"s{number}" for number, step in enumerate(workflow.steps, start=1)}


def _edges(workflow: Workflow) -> Iterator[tuple[str, str]]:
    return ((name, step.name) for step in workflow.steps for name in step.depends_on)


def _html(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in " -_.," else f"#{ord(letter)};" for letter in text)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


FORMATS: Final[Mapping[str, Callable[[Workflow], str]]] = {"text": text, "mermaid": mermaid, "dot": dot}
