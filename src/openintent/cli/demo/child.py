"""The processes of the demo: the server, and the agents. Run as `python -m`, never by people.

Their standard input is a lifeline: it ends when the demo does, whatever ended it, and then they end as well.
"""

import json
import os
import random
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from openintent import OpenIntentClient
    from openintent.client.blocks import LeaseBlock
    from openintent.client.lease import Lease

SCOPES: Final = ("build", "docs", "deploy")
READY: Final = "ready"
GO: Final = b"go\n"

STDIN: Final = 0
STEP_S: Final = 0.2
STEPS: Final = range(2, 7)  # of the work under one lease
REST_S: Final = (0.05, 0.4)
PATIENCE_S: Final = 60.0


def main(words: list[str]) -> None:
    if words[0] == "server":
        serve()
    else:
        agent(*words[1:])


def serve() -> None:
    from openintent.server import app  # noqa: PLC0415  # only this child is a server
    from openintent.server.settings import Settings  # noqa: PLC0415

    _end_with_the_demo()
    app.run(Settings(port=0, engine="memory:", log_level="warning"), lambda url: say(state=READY, url=url))


def agent(url: str, name: str, intent_id: str, ttl: str) -> None:
    """Take one scope after the other, and work on it: each step is written down under the lease's token."""
    from openintent import OpenIntentClient  # noqa: PLC0415  # not for the server

    client = OpenIntentClient(url, agent_id=name)
    say(agent=name, state=READY)
    os.read(STDIN, len(GO))
    _end_with_the_demo()
    rng = random.Random(name)  # noqa: S311  # for variety, the same in each run
    pause = threading.Event()  # nobody sets it
    scope = ""
    while True:
        scope = rng.choice([other for other in SCOPES if other != scope])
        _take_a_turn(client, client.lease(intent_id, scope, ttl=float(ttl), wait_seconds=PATIENCE_S), rng)
        pause.wait(rng.uniform(*REST_S))


def _take_a_turn(client: "OpenIntentClient", block: "LeaseBlock", rng: random.Random) -> None:
    from openintent.errors import LeaseLost, OpenIntentError, StaleTokenError  # noqa: PLC0415

    held: list[Lease] = []
    with suppress(OpenIntentError):
        try:
            with block as lease:
                held.append(lease)
                for step in range(rng.choice(STEPS)):
                    lease.lost.wait(STEP_S)
                    _write(client, lease, f"step {step}")
        except (LeaseLost, StaleTokenError):
            for lease in held:
                _write_all_the_same(client, lease)


def _write_all_the_same(client: "OpenIntentClient", lease: "Lease") -> None:
    """What a program would do that does not care whether its lease is lost. The token gives it away."""
    from openintent.errors import StaleTokenError  # noqa: PLC0415

    try:
        _write(client, lease, "too late")
    except StaleTokenError as refused:
        say(agent=lease.agent_id, state="refused", token=lease.token, live_token=refused.live_token)
    else:
        say(agent=lease.agent_id, state="written", token=lease.token)


def _write(client: "OpenIntentClient", lease: "Lease", text: str) -> None:
    client.patch_state(lease.intent_id or "", {lease.scope: f"{lease.agent_id}, {text}"}, lease=lease.token)


def say(**said: Any) -> None:
    """One line for the demo, in one piece: the agents share a pipe."""
    os.write(sys.stdout.fileno(), json.dumps(said).encode() + b"\n")


def _end_with_the_demo() -> None:
    def listen() -> None:
        while os.read(STDIN, 1):
            pass
        os._exit(0)

    threading.Thread(target=listen, name="lifeline", daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1:])
