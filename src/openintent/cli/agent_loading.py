"""Finding an agent by its name: `module:Class`, or `file.py:Class`."""

import dataclasses
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from openintent.agents import AgentBase
from openintent.cli.report import MISUSED, Problem
from openintent.client import spelling
from openintent.client.transport import Addresses


def loaded(
    name: str,
    *,
    url: str | None = None,
    api_key: str | None = None,
    ttl: float | None = None,
    drain: float | None = None,
) -> type[AgentBase]:
    """The class, with what was said on the command line in place of what its decorator says."""
    kind = class_named(name)
    told = {"base_url": url, "api_key": api_key, "lease_ttl": ttl, "drain_seconds": drain}
    given: dict[str, Any] = {field: value for field, value in told.items() if value is not None}
    settings = dataclasses.replace(kind.settings, **given)
    try:
        Addresses(spelling.urls_of(settings.base_url))
    except ValueError as wrong:
        raise _misused(str(wrong)) from None
    # A class of its own: what others import stays as it is.
    return type(kind.__name__, (kind,), {"settings": settings})


def class_named(name: str) -> type[AgentBase]:
    """The class as it is."""
    where, colon, called = name.rpartition(":")
    if not colon or not where or not called:
        raise _misused(f"{name}: write module:Class or file.py:Class")
    return _class_of(_module(where), where, called)


def made(kind: type[AgentBase]) -> AgentBase:
    try:
        agent = kind()
        _ = agent.agent_id
    except Exception as wrong:  # noqa: BLE001  # whatever an `__init__` does
        raise Problem(f"{kind.__name__} cannot be made: {_said(wrong)}", "it is made without arguments") from None
    return agent


def refuse_one_instance_many_times(kinds: Iterable[type[AgentBase]]) -> None:
    """Leases exclude other agents only: two processes that are the same instance would work on the same things."""
    for kind in kinds:
        if kind.settings.instance is not None:
            raise _misused(
                f"{kind.__name__} has instance={kind.settings.instance!r}: replicas need one each; leave it out"
            )


def _class_of(module: ModuleType, where: str, called: str) -> type[AgentBase]:
    found = getattr(module, called, None)
    if found is None:
        there = [
            name for name, value in vars(module).items() if _is_agent(value) and value.__module__ == module.__name__
        ]
        raise _misused(f"{where} has no {called}; its agents: {', '.join(there) or 'none'}")
    if not isinstance(found, type) or not _is_agent(found):
        raise _misused(f"{called} in {where} is no agent: decorate the class with @Agent(...)")
    return found


def _is_agent(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, AgentBase) and hasattr(value, "settings")


def _module(where: str) -> ModuleType:
    """What it needs may stand beside it: the folder comes first, as when it is run by itself."""
    by_file = where.endswith(".py")
    folder = Path(where).resolve().parent if by_file else Path.cwd()
    sys.path.insert(0, str(folder))
    try:
        return _from_file(Path(where)) if by_file else importlib.import_module(where)
    except ModuleNotFoundError as missing:
        if missing.name is not None and (where == missing.name or where.startswith(f"{missing.name}.")):
            raise _misused(f"there is no module {where}, neither in this folder nor installed") from None
        raise _broken(where, missing) from None
    except FileNotFoundError as missing:
        if missing.filename != str(Path(where).resolve()):
            raise _broken(where, missing) from None
        raise _misused(f"there is no file {where}") from None
    except (Exception, SystemExit) as broken:  # noqa: BLE001  # whatever a module does
        raise _broken(where, broken) from None


def _from_file(path: Path) -> ModuleType:
    there = sys.modules.get(path.stem)
    if there is not None and getattr(there, "__file__", None) == str(path.resolve()):
        return there  # for another agent in it
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None, path  # its name ends with .py
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _broken(where: str, failure: BaseException) -> Problem:
    return Problem(f"{where} cannot be loaded: {_said(failure)}{_place(failure)}")


def _said(failure: BaseException) -> str:
    return traceback.format_exception_only(failure)[-1].strip()


def _place(failure: BaseException) -> str:
    if isinstance(failure, SyntaxError):
        return f" ({failure.filename}, line {failure.lineno})"
    frames = [frame for frame in traceback.extract_tb(failure.__traceback__) if "importlib" not in frame.filename]
    ours = [frame for frame in frames if frame.filename != __file__]
    return f" ({ours[-1].filename}, line {ours[-1].lineno})" if ours else ""


def _misused(message: str) -> Problem:
    return Problem(message, exit_code=MISUSED)
