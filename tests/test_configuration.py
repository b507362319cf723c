"""`docs/configuration.md` is made from the settings: names, defaults, and the comment beside each.

`pytest --rewrite-traces tests/test_configuration.py` writes it anew.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from openintent.model import Limits
from openintent.server.settings import ENV_PREFIX, Settings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
FIELD = re.compile(r"^    (\w+): .*?  # (.*)$", re.MULTILINE)

TOP = """# Configuration

`openintent serve` needs none. Whatever is set comes, in this order, from flags, from the environment, from a TOML file
(`--config FILE` or `OPENINTENT_CONFIG`), or is as below. Everything that is wrong is said at once, and nothing is
started.

```toml
port = 9000
log_format = "json"

[limits]
ttl_ms_max = 3_600_000
```

This page is made from the source; a test holds that it is up to date.

## Settings

Each can be set in the environment, in capitals behind `OPENINTENT_`: `OPENINTENT_PORT=9000`.

| name | default | |
|---|---|---|
"""

MIDDLE = """
## Limits

In the table `[limits]` of the file. Reaching one is a clear answer: 422 for what is too large, 429 for what is too
many.

| name | default | |
|---|---|---|
"""


def rows(shape: type) -> Iterator[str]:
    notes = dict(FIELD.findall(inspect.getsource(shape)))
    for name, value in values(shape):
        yield f"| `{name}` | {shown(value)} | {notes[name]} |\n"


def values(shape: type) -> Iterator[tuple[str, object]]:
    made = shape()
    for statement in ast.parse(inspect.getsource(shape)).body[0].body:
        if isinstance(statement, ast.AnnAssign) and statement.target.id != "limits":
            yield statement.target.id, getattr(made, statement.target.id)


def shown(value: object) -> str:
    if value is None:
        return "none"
    return f"`{value:_}`" if isinstance(value, int) and not isinstance(value, bool) else f"`{value}`".lower()


def made() -> str:
    return TOP + "".join(rows(Settings)) + MIDDLE + "".join(rows(Limits))


def test_the_page_says_what_the_source_says(request):
    if request.config.getoption("--rewrite-traces"):
        PAGE.write_text(made(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == made()


def test_every_setting_has_a_note():
    for shape in (Settings, Limits):
        noted = {name for name, _ in FIELD.findall(inspect.getsource(shape))}
        assert [name for name, _ in values(shape) if name not in noted] == []


def test_the_environment_is_as_the_page_says():
    assert ENV_PREFIX == "OPENINTENT_"
