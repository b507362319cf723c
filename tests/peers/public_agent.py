"""Run by the Python of an environment in which OpenIntent's own package is installed: its agents, on a server of ours.

It is a program and not a test because there `openintent` is the other package of that name. It writes a line of JSON
for each answer that the package got, and for each handler that the package called.

A decorated class is run by `BaseAgent.run`: the `run` that the decorator puts in its place calls itself for ever.
"""

import json
import logging
import sys
from urllib.parse import urlsplit

from openintent.agents import (
    Agent,
    AgentConfig,
    BaseAgent,
    Worker,
    on_assignment,
    on_complete,
    on_lease_available,
    on_state_change,
)
from openintent.models import Intent

KIND, URL, NAME = sys.argv[1:]
KEY = "any-key"
SOON = AgentConfig(base_url=URL, api_key=KEY, reconnect_delay=0.2, max_reconnects=100)


def tell(what: str, **more: object) -> None:
    print(json.dumps({"what": what, **more}), flush=True)  # noqa: T201  # what the test reads


class Answers(logging.Handler):
    """The HTTP library logs each answer as it begins, of a stream too."""

    def emit(self, record: logging.LogRecord) -> None:
        method, url, _, status, _ = record.args
        tell("answer", method=method, path=urlsplit(str(url)).path, status=status)


class Handlers:
    """What its users write."""

    @on_assignment
    async def work(self, intent: Intent) -> dict[str, int]:
        tell("assignment", intent=intent.id)
        return {"pages": 3}

    @on_lease_available("research")
    async def claim(self, intent: Intent, scope: str) -> None:
        tell("lease_available", intent=intent.id, scope=scope)

    @on_state_change(["pages"])
    async def follow(self, intent: Intent, old_state: dict[str, object], new_state: dict[str, object]) -> None:
        tell("state_change", intent=intent.id, old=old_state, new=new_state)

    @on_complete
    async def close(self, intent: Intent) -> None:
        tell("complete", intent=intent.id)


class Subclass(Handlers, BaseAgent):
    _agent_id = NAME


@Agent(NAME, config=SOON)
class Decorated(Handlers):
    pass


def worked(intent: Intent) -> dict[str, int]:
    tell("assignment", intent=intent.id)
    return {"pages": 3}


RUNS = {
    "subclass": lambda: Subclass(config=SOON).run(),
    "decorated": lambda: BaseAgent.run(Decorated()),
    "worker": lambda: Worker(NAME, worked, URL, KEY).run(),
}

if __name__ == "__main__":
    logging.getLogger("httpx").setLevel(logging.INFO)
    logging.getLogger("httpx").addHandler(Answers())
    RUNS[KIND]()
