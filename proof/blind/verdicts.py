"""What became of each change: noticed, or not; and if not, whether we know why that is no loss."""

import ast
import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent

# mutmut's own numbers: tests failed; a time limit, in several ways to die of it. The rest was not noticed.
FAILED: Final = (1, 3)
TIMED_OUT: Final = (24, 36, 152, 255, -24, -9)
# Noticed, noticed because nothing came any more, not noticed for a reason that we know, not noticed.
KINDS: Final = ("killed", "timeout", "excused", "survived")


@dataclass(frozen=True)
class Change:
    """One change, named by what it makes of a line: numbers would be others after the next edit."""

    name: str  # as mutmut has it
    where: str  # module.function, or module.Class.method
    old: str
    new: str
    verdict: str  # killed, timeout or survived
    why: str = ""  # it is no loss that it survived

    @property
    def key(self) -> str:
        return f"{self.where}: {self.new}"


def judged(folder: Path, exits: Mapping[str, int | None]) -> list[Change]:
    """All that were tried."""
    reasons = excused()
    return [_change(folder, name, code, reasons) for name, code in exits.items() if code is not None]


def excused() -> dict[str, str]:
    """By key, why each is no loss."""
    groups: list[dict[str, Any]] = tomllib.loads((HERE / "excused.toml").read_text(encoding="utf-8"))["group"]
    return {key: group["why"] for group in groups for key in group["changes"]}


def _change(folder: Path, name: str, code: int, reasons: Mapping[str, str]) -> Change:
    verdict = "killed" if code in FAILED else "timeout" if code in TIMED_OUT else "survived"
    module, _, function = name.rpartition(".")
    where = f"{module.rpartition('.')[2]}.{_readable(function)}"
    if verdict == "killed":
        return Change(name, where, "", "", verdict)
    bodies = _bodies(folder / "mutants" / "src" / f"{module.replace('.', '/')}.py")
    old, new = _difference(bodies[re.sub(r"_\d+$", "_orig", function)], bodies[function])
    change = Change(name, where, old, new, verdict)
    return Change(name, where, old, new, verdict, reasons.get(change.key, "") if verdict == "survived" else "")


def _readable(function: str) -> str:
    """`xǁHoldǁover__mutmut_3` is `Hold.over`, `x_split__mutmut_1` is `split`."""
    plain = re.sub(r"__mutmut_\d+$", "", function)
    return plain.removeprefix("xǁ").replace("ǁ", ".") if plain.startswith("xǁ") else plain.removeprefix("x_")


@cache
def _bodies(path: Path) -> dict[str, list[str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {each.name: ast.unparse(each).replace(each.name, "", 1).splitlines() for each in functions}


def _difference(old: list[str], new: list[str]) -> tuple[str, str]:
    lines = [
        line for line in difflib.unified_diff(old, new, lineterm="", n=0) if not line.startswith(("---", "+++", "@@"))
    ]
    sides = ([line[1:].strip() for line in lines if line[0] == sign] for sign in "-+")
    before, after = (" ".join(side) for side in sides)
    return before, after or "(gone)"


def table(changes: Iterable[Change]) -> list[tuple[str, Counter[str]]]:
    """By file, and all together last."""
    files: dict[str, Counter[str]] = {}
    whole: Counter[str] = Counter()
    for change in changes:
        file = change.name.rpartition(".")[0].removeprefix("openintent.").replace(".", "/") + ".py"
        kind = "excused" if change.why else change.verdict
        for row in (files.setdefault(file, Counter()), whole):
            row[kind] += 1
    return [*sorted(files.items()), ("all", whole)]


def share_noticed(row: Counter[str]) -> float:
    return (row["killed"] + row["timeout"]) / max(1, row.total())
