"""The style guide, as far as a machine can hold it. Everything here looks at files; nothing is started."""

import ast
import inspect
import itertools
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from openintent import errors
from openintent.cli.root import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
PACKAGE = SRC / "openintent"
TESTS = ROOT / "tests"

FUNCTION_LINES_MAX = 40
FILE_LINES_MAX = 400
FUNCTION_LINES_MEDIAN_MAX = 7

BOTTOM = frozenset({"chance", "clock", "errors", "model", "records", "retrying", "spaces", "trust", "version", "wire"})
# What each layer may import of ours, besides itself. A layer that is not named here is on top: it may import anything.
MAY_IMPORT = {
    "chance": frozenset(),
    "retrying": frozenset(),
    "clock": frozenset(),
    "errors": frozenset(),
    "spaces": frozenset(),
    "trust": frozenset(),
    "version": frozenset(),
    "model": frozenset({"errors"}),
    "wire": frozenset({"model", "errors"}),
    "records": frozenset({"model", "errors"}),
    "core": frozenset({"model", "spaces", "errors"}),
    "engines": BOTTOM,
    "client": BOTTOM,
    "grantor": BOTTOM | {"core", "engines"},
    "server": BOTTOM | {"core", "engines", "grantor"},
    "embedded": BOTTOM | {"client", "core", "engines", "grantor", "server"},
    "agents": BOTTOM | {"client"},
    "workflows": BOTTOM | {"agents", "client"},
}
LIBRARY_OF_ENGINE = {
    "apsw": ("sqlite_file.py", "sqlite_database.py", "sqlite_here.py", "backup.py"),
    "grpc": ("etcd.py",),
    "kazoo": ("zookeeper_line.py",),
    "psycopg": ("postgres.py", "postgres_place.py"),
    "redis": ("redis.py",),
}

LEAKS = {
    "a package registry": re.compile(
        r"(pypi\.(org|python)|pythonhosted\.org|npmjs\.(org|com)|crates\.io|rubygems\.org|proxy\.golang\.org|ghcr\.io|docker\.io)",
    ),
    "a path of one machine": re.compile(r"(?<![\w.~}-])/(work|root|opt|home|Users|farm)/\w"),
    "a package index": re.compile(r"--(extra-)?index[-]url|--find[-]links|://[^\s\"']+/simple\b"),
}
# One word per concept: it is a term (docs/glossary.md).
BANNED_WORDS = re.compile(r"(?<![a-z])(epoch|generation|boot[ _-]?id)(?![a-z])", re.IGNORECASE)
UNTRACKED = re.compile(r"\.(?!ci|gitignore).*")
MARKDOWN_LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def python_files(*folders: Path) -> list[Path]:
    """Those that we wrote: in a folder named build stands what a program has fetched or made."""
    found = itertools.chain.from_iterable(folder.rglob("*.py") for folder in folders)
    return sorted(path for path in found if "build" not in path.parts)


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All that a file is made of: many tests look at it, and to find it takes longer than to look."""
    return list(ast.walk(parsed(path)))


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in python_files(PACKAGE)}


def absolute(node: ast.ImportFrom, path: Path) -> str:
    """The module that a `from` import names, with its dots resolved."""
    if node.level == 0:
        return node.module or ""
    package = path.relative_to(SRC).parent.parts
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports; `from package import module` counts as that module."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, path)
            names = [f"{base}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else base for name in names)


def layer(module: str) -> str:
    """`openintent.core.leases` is of `core`; what is not ours goes by its top name."""
    parts = module.split(".")
    return parts[1] if parts[0] == "openintent" and len(parts) > 1 else parts[0]


def ours(module: str) -> bool:
    return module.partition(".")[0] == "openintent"


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{shown(path)}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def tracked_files() -> list[Path]:
    """What is or will be in the repository; without git, what lies in the folders that we ship."""
    try:
        listing = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\n")
        found = [ROOT / line for line in listing if line]
    except (OSError, subprocess.CalledProcessError):
        found = [path for path in ROOT.rglob("*") if not any(map(UNTRACKED.fullmatch, path.relative_to(ROOT).parts))]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def markdown_files() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def called(node: ast.Call) -> str:
    return ast.unparse(node.func)


# Layers


def test_imports_point_down():
    wrong = [
        f"{shown(path)} imports {target}"
        for name, path in MODULES.items()
        if (allowed := MAY_IMPORT.get(layer(name))) is not None
        for target in imported(path)
        if ours(target) and layer(target) not in allowed | {layer(name)}
    ]
    assert wrong == []


def test_the_core_imports_nothing_but_the_standard_library_and_plain_values():
    wrong = [
        f"{shown(path)} imports {target}"
        for path in python_files(PACKAGE / "core")
        for target in imported(path)
        if not ours(target) and target.split(".")[0] not in sys.stdlib_module_names | {"msgspec"}
    ]
    assert wrong == []


def test_the_core_reads_no_clock_and_rolls_no_dice():
    impure = {"asyncio", "datetime", "logging", "os", "random", "secrets", "socket", "threading", "time", "uuid"}
    wrong = [
        f"{shown(path)} imports {target}"
        for path in python_files(PACKAGE / "core")
        for target in imported(path)
        if target.split(".")[0] in impure
    ]
    assert wrong == []


def test_an_engines_library_is_imported_in_that_engines_file_alone():
    wrong = [
        f"{shown(path)} imports {target}"
        for path in MODULES.values()
        for target in imported(path)
        if (homes := LIBRARY_OF_ENGINE.get(target.split(".")[0])) is not None
        and path not in [PACKAGE / "engines" / home for home in homes]
    ]
    assert wrong == []


def test_every_module_is_imported_by_something():
    users = [*MODULES.values(), *python_files(TESTS, ROOT / "examples", ROOT / "bench")]
    used = {target for path in users for target in imported(path)}
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    used |= {target.split(":")[0] for target in scripts.values()} | set(COMMANDS.values())
    # A package is imported with any of its modules.
    used |= {
        ".".join(parts[:length]) for parts in [name.split(".") for name in used] for length in range(1, len(parts))
    }
    assert sorted(name for name in MODULES if name not in used and not name.endswith("__main__")) == []


# Sizes


def test_no_function_is_too_long_to_be_seen_at_once():
    long = [
        f"{name} has {lines}"
        for path in MODULES.values()
        for name, lines in functions(path)
        if lines > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_most_functions_are_short():
    lengths = [lines for path in MODULES.values() for _, lines in functions(path)]
    assert statistics.median(lengths) <= FUNCTION_LINES_MEDIAN_MAX


def test_no_file_is_too_long_to_be_read_in_one_go():
    sizes = {shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(PACKAGE, TESTS)}
    assert {name: lines for name, lines in sizes.items() if lines > FILE_LINES_MAX} == {}


# Names


def in_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest, each by name: the order that ruff keeps, too."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def public_names(path: Path) -> list[str]:
    for node in parsed(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def test_public_names_are_sorted():
    listed = {shown(path): public_names(path) for path in MODULES.values()}
    assert {name: sorted(names, key=in_order) for name, names in listed.items()} == listed


def front(client: type) -> dict[str, list[tuple[str, object, object]]]:
    """The public names of a client class; for methods, what they take. What they return may differ: one is awaited."""
    members = {key: getattr(client, key) for key in dir(client) if not key.startswith("_")}
    return {key: taken(member) if callable(member) else [] for key, member in members.items()}


def taken(function: Callable[..., object]) -> list[tuple[str, object, object]]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


def test_both_clients_offer_the_same_methods():
    from openintent.client import AsyncOpenIntentClient, OpenIntentClient

    assert "acquire_lease" in front(OpenIntentClient)
    assert front(OpenIntentClient) == front(AsyncOpenIntentClient)


def test_one_word_per_concept():
    wrong = [
        f"{shown(path)}:{number} says {found.group()!r}"
        for path in MODULES.values()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (found := BANNED_WORDS.search(line)) is not None
    ]
    assert wrong == []


# Errors


@pytest.mark.parametrize("code", sorted(errors.BY_CODE))
def test_every_error_says_what_it_means(code):
    assert (errors.BY_CODE[code].__doc__ or "").strip().endswith(".")


@pytest.mark.parametrize("code", sorted(errors.BY_CODE))
def test_every_error_code_is_in_the_http_reference_with_its_class(code):
    lines = (ROOT / "docs" / "http.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if f"`{code}`" in line and f" | `{errors.BY_CODE[code].__name__}` | " in line]


# Tests


def calls_in_tests() -> Iterator[tuple[str, ast.Call]]:
    for path in python_files(TESTS):
        for node in nodes(path):
            if isinstance(node, ast.Call):
                yield f"{shown(path)}:{node.lineno}", node


def test_tests_wait_for_signals_and_never_sleep():
    sleeps = [where for where, call in calls_in_tests() if called(call) in {"time.sleep", "sleep"}]
    assert sleeps == []


def test_every_skip_gives_its_reason():
    skips = re.compile(r"(pytest\.)?(mark\.skip(if)?|skip|importorskip)")
    silent = [
        where
        for where, call in calls_in_tests()
        if skips.fullmatch(called(call))
        and not any(keyword.arg == "reason" for keyword in call.keywords)
        and not (called(call).endswith(".skip") and call.args)
    ]
    bare = [
        f"{shown(path)}:{node.lineno}"
        for path in python_files(TESTS)
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for decorator in node.decorator_list
        if ast.unparse(decorator) == "pytest.mark.skip"
    ]
    assert silent + bare == []


# Files


@pytest.mark.parametrize("what", sorted(LEAKS))
def test_no_file_names(what):
    leaks = [
        f"{shown(path)}:{number}"
        for path in tracked_files()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="ignore").splitlines(), start=1)
        if LEAKS[what].search(line)
    ]
    assert leaks == []


def test_links_in_the_documentation_lead_somewhere():
    dead = [
        f"{shown(path)} -> {target}"
        for path in markdown_files()
        for target in MARKDOWN_LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8")))
        if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists()
    ]
    assert dead == []


def test_every_decision_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted((ROOT / "docs" / "decisions").glob("*.md")) if path.name not in index] == []


def test_every_promise_names_tests_that_exist():
    named = set(re.findall(r"`(tests/[\w./]+)`", (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")))
    assert named
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_the_example_in_the_readme_is_the_one_that_runs():
    example = (ROOT / "examples" / "first_lease.py").read_text(encoding="utf-8")
    body = example.split('"""\n\n', maxsplit=1)[1]
    assert f"```python\n{body}```" in (ROOT / "README.md").read_text(encoding="utf-8")


def pins(name: str) -> set[str]:
    return set((ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines())


def test_every_requirement_is_pinned_and_tests_run_on_what_users_get():
    assert [line for line in pins("dev") if "==" not in line] == []
    assert pins("runtime") <= pins("dev")
