"""The file format as JSON Schema, for editors: completion, and a red line under what is wrong.

What it cannot say (that a step exists, that there is no cycle) only `load` checks.
"""

from typing import Any, Final

import msgspec

from openintent.workflows.tables import FILE

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
TITLE: Final = "OpenIntent workflow"


def schema() -> dict[str, Any]:
    return {"$schema": DIALECT, "title": TITLE, **FILE.schema()}


def text() -> str:
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"
