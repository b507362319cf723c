"""What is offered, and what importing it costs."""

import inspect
import subprocess
import sys

import pytest

import openintent
from openintent import AsyncOpenIntentClient, OpenIntentClient, exceptions, models


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
    for name in shape(OpenIntentClient).keys() - {"lease"}:
        docs = (inspect.getdoc(getattr(kind, name)) or "" for kind in (OpenIntentClient, AsyncOpenIntentClient))
        first, second = (doc.replace("async with", "with") for doc in docs)
        assert first == second, name


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
