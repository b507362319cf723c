"""What is offered, and what importing it costs."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

import openintent
from openintent import AsyncOpenIntentClient, OpenIntentClient, exceptions, models

CLIENT = Path(openintent.__file__).parent / "client"


def shape(kind: type) -> dict[str, list[inspect.Parameter]]:
    members = inspect.getmembers(kind, inspect.isfunction)
    return {
        name: [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
        for name, member in members
        if not name.startswith("_") and (signature := inspect.signature(member))
    }


def test_both_clients_offer_the_same_methods():
    assert shape(OpenIntentClient) == shape(AsyncOpenIntentClient)


def test_both_clients_say_the_same_about_their_methods():
    """A sentence that was mended in one of them only is a lie in the other."""
    for name in shape(OpenIntentClient).keys() - {"lease", "coordinate"}:
        docs = (inspect.getdoc(getattr(kind, name)) or "" for kind in (OpenIntentClient, AsyncOpenIntentClient))
        first, second = (doc.replace("async with", "with").replace("async for", "for") for doc in docs)
        assert first == second, name


class Unawaited(ast.NodeTransformer):
    """The same code without its waiting, under the names that it has there."""

    NAMES: ClassVar = {
        "AsyncIterator": "Iterator",
        "AsyncStream": "Stream",
        "AsyncLeaseBlock": "LeaseBlock",
        "AsyncCoordinatorBlock": "CoordinatorBlock",
        "_finish": "_run",
    }

    def visit_AsyncFunctionDef(self, node):
        self.generic_visit(node)
        return ast.FunctionDef(**{field: getattr(node, field, None) for field in ast.FunctionDef._fields})

    def visit_Await(self, node):
        return self.visit(node.value)

    def visit_Name(self, node):
        return ast.Name(self.NAMES.get(node.id, node.id), node.ctx)

    def visit_Attribute(self, node):
        self.generic_visit(node)
        return ast.Attribute(node.value, self.NAMES.get(node.attr, node.attr), node.ctx)


def methods(folder: str, subject: str) -> dict[str, str]:
    """The code of each public method, without its docstring."""
    tree = Unawaited().visit(ast.parse((CLIENT / folder / f"{subject}.py").read_text(encoding="utf-8")))
    found = {}
    for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for node in (each for each in kind.body if isinstance(each, ast.FunctionDef) and each.name[0] != "_"):
            node.body = node.body[1:] if ast.get_docstring(node) else node.body
            found[f"{kind.name}.{node.name}"] = ast.unparse(ast.fix_missing_locations(node))
    return found


SUBJECTS = sorted(path.stem for path in (CLIENT / "sync").glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_methods_of_both_clients_differ_only_in_their_waiting(subject):
    assert methods("sync", subject) == methods("awaited", subject)


def test_both_clients_are_made_of_the_same_subjects():
    assert sorted(path.stem for path in (CLIENT / "awaited").glob("*.py") if path.stem != "__init__") == SUBJECTS
    assert sum(len(methods("sync", subject)) for subject in SUBJECTS) > 70


def test_the_documents_names_for_agents_are_the_same_in_both_clients():
    faces = [shape(kind.agents.fget.__globals__["AgentsFace"]) for kind in (OpenIntentClient, AsyncOpenIntentClient)]
    assert faces[0] == faces[1]
    assert {"register", "heartbeat", "drain", "get_status"} <= faces[0].keys()


@pytest.mark.parametrize("module", [openintent, exceptions, models])
def test_what_is_offered_exists(module):
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_importing_the_client_loads_no_server():
    code = "import openintent, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"openintent.core", "openintent.server", "openintent.grantor", "openintent.engines"}
    assert sorted(heavy & set(loaded)) == []
    assert sorted({"uvicorn", "starlette", "apsw", "click", "rich"} & set(loaded)) == []


def test_two_clients_are_two_agents(monkeypatch):
    monkeypatch.setenv("OPENINTENT_API_KEY", "secret")
    first, second = OpenIntentClient(), OpenIntentClient()
    assert first.agent_id != second.agent_id
    assert "secret" not in repr(first)
