"""The work bench: a copy of the project in which mutmut plants its changes, and mutmut itself, beside the project.

mutmut wants to own the folder that it works in, and it passes over properties, of which trust and holds have many. So
it gets a copy, in which they are written as functions that are made properties in the next line.
"""

import ast
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent
# mutmut 3.8.0 looks into pytest where newer versions have changed.
TOOLS: Final = ("mutmut==3.8.0", "pytest==8.4.2")
INSTALL_S_MAX: Final = 300.0
SLOWER_S_MAX: Final = 600.0
LOOK_EVERY_S: Final = 5.0
NO_TOOL: Final = 3  # the exit code if mutmut is not to be had
QUICK_EXAMPLES: Final = "8"

# A failure needs no smaller example here, and the same change is to have the same fate each time.
NO_SHRINKING: Final = """
from hypothesis import Phase  # noqa
settings.register_profile("blind", phases=[Phase.explicit, Phase.generate], derandomize=True, database=None)
settings.load_profile("blind")
"""


@dataclass(frozen=True)
class Part:
    """Some files that are changed together. What its quick tests miss, the slower ones are asked about."""

    name: str
    first: str  # a change that is always there: with it all the others are written
    slower: tuple[str, ...]


PARTS: Final = (
    Part("core", "openintent.core.scopes.x_split__mutmut_1", ("tests/core", "tests/grantor", "tests/sim")),
    Part("client", "openintent.trust.x_margin_s__mutmut_1", ("tests/clients", "tests/sim")),
)


def cached(name: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "openintent-leases-tests" / f"{name}-py{sys.version_info.major}{sys.version_info.minor}"


def tools() -> Path:
    """The folder of mutmut's programs. What the tests need it finds where this program has it."""
    home = cached("-".join(TOOLS).replace("==", "-"))
    if not (home / "complete").exists():
        venv.create(home, with_pip=True, clear=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *TOOLS]
        if subprocess.run(pip, check=False, timeout=INSTALL_S_MAX).returncode != 0:
            raise SystemExit(NO_TOOL)
        (home / "complete").touch()
    library = home / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    (library / "project.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return home / "bin"


class Bench:
    def __init__(self, part: Part, folder: Path) -> None:
        self.part = part
        self.folder = folder / part.name
        self._tools = tools()
        self._passes_unchanged = False

    def prepare(self) -> None:
        """A fresh copy, with all changes written into it and none of them active."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("src", "tests"):
            ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
            shutil.copytree(ROOT / name, self.folder / name, ignore=ignored)
        shutil.copy(ROOT / "README.md", self.folder)
        texts = [ROOT / "pyproject.toml", HERE / f"{self.part.name}.toml"]
        joined = "\n".join(text.read_text(encoding="utf-8") for text in texts)
        (self.folder / "pyproject.toml").write_text(joined, encoding="utf-8")
        with (self.folder / "tests" / "conftest.py").open("a", encoding="utf-8") as conftest:
            conftest.write(NO_SHRINKING)
        for path in (self.folder / "src").rglob("*.py"):
            _unfold_properties(path)
        self.run([self.part.first])

    def run(self, names: list[str], look: Callable[[], None] = lambda: None) -> None:
        """Have these changes tried, or all that have not been tried yet; look now and then how far it is."""
        env = _clean_environment() | {"PROOF_EXAMPLES": QUICK_EXAMPLES}
        command = [str(self._tools / "mutmut"), "run", *names]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command, cwd=self.folder, env=env, stdout=quiet, stderr=quiet) as process:
            while _runs(process):
                look()
        if process.returncode != 0:
            raise SystemExit(f"mutmut failed; to see why: cd {self.folder} && {self._tools / 'mutmut'} run")

    def exits(self) -> dict[str, int | None]:
        """Every change, with the exit code of its tests; None if it was not tried."""
        found: dict[str, int | None] = {}
        for path in sorted((self.folder / "mutants" / "src").rglob("*.meta")):
            found |= json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
        return found

    def sample(self, share: float, seed: int) -> list[str]:
        names = sorted(self.exits())
        return random.Random(seed).sample(names, min(len(names), round(share * len(names))))  # noqa: S311  # a choice

    def noticed_by_slower_tests(self, name: str) -> bool:
        """Whether tests that take longer notice this change; one that makes them hang is noticed too."""
        if not self._passes_unchanged:
            self._passes_unchanged = self._slower_tests_pass("")
            if not self._passes_unchanged:
                raise SystemExit(
                    f"{', '.join(self.part.slower)} fail without any change: what they notice means nothing"
                )
        return not self._slower_tests_pass(name)

    def _slower_tests_pass(self, name: str) -> bool:
        mutants = self.folder / "mutants"
        env = _clean_environment() | {"MUTANT_UNDER_TEST": name, "PYTHONPATH": str(mutants / "src")}
        # A test that starts a Python of its own finds no package there.
        options = ["-x", "-q", "-p", "no:xdist", "-p", "no:schemathesis", "-m", "not slow", "-k", "not another_process"]
        command = [str(self._tools / "python"), "-m", "pytest", *options, *self.part.slower]
        quiet = subprocess.DEVNULL
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                command, cwd=mutants, env=env, stdout=quiet, stderr=quiet, timeout=SLOWER_S_MAX, check=False
            )
            return done.returncode == 0
        return False


def _runs(process: "subprocess.Popen[bytes]") -> bool:
    try:
        process.wait(LOOK_EVERY_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PROOF_", "COV_"))}


def _unfold_properties(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    functions = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.FunctionDef)]
    for function in sorted(functions, key=lambda function: -function.lineno):
        if [ast.unparse(each) for each in function.decorator_list] == ["property"]:
            lines.insert(
                function.end_lineno or 0, f"{' ' * function.col_offset}{function.name} = property({function.name})"
            )
            del lines[function.decorator_list[0].lineno - 1]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
