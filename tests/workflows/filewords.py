"""Where the example files are, and how a broken one says what is wrong with it."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from openintent.workflows.problems import Problem

HERE = Path(__file__).parent
DOCS = HERE.parent.parent / "docs"
BROKEN = sorted((HERE / "broken").glob("*.yaml"))
RIGHT = sorted((HERE / "right").iterdir())

# Behind a line: `#! column: words` for each error in it, `#? column: words` for each warning. Where no comment can
# stand, a line of its own has the line's number too: `#!line:column: words`.
BESIDE = re.compile(r" #([!?]) (\d+): (.*?)(?= #[!?] |$)")
ELSEWHERE = re.compile(r"#([!?])(\d+):(\d+): (.*)")
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Expected:
    line: int
    column: int
    severity: str
    words: str

    def is_met_by(self, problem: Problem) -> bool:
        place = (problem.line, problem.column, problem.severity)
        return place == (self.line, self.column, self.severity) and self.words in problem.message


def expectations(text: str) -> list[Expected]:
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        alone = ELSEWHERE.fullmatch(line)
        marks = [alone.groups()] if alone else [(kind, number, *rest) for kind, *rest in BESIDE.findall(line)]
        found += [
            Expected(int(at), int(column), "error" if kind == "!" else "warning", words)
            for kind, at, column, words in marks
        ]
    return sorted(found, key=lambda one: (one.line, one.column))


def yaml_blocks(path: Path) -> list[str]:
    return BLOCK.findall(path.read_text(encoding="utf-8"))


def documents() -> list[str]:
    """The YAML of the public documents; none without the folder."""
    folder = os.environ.get("OPENINTENT_DOCS")
    files = sorted(Path(folder).glob("001*")) if folder else []
    return [block for path in files for block in yaml_blocks(path)]
