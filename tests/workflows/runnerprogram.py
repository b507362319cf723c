"""A runner in a process of its own: to be killed, or frozen just before it writes its n-th patch.

    runnerprogram.py WORKFLOW.json URL RUN TTL [PATCH]

Its lines: `standing by`, `leading`, `frozen`, `late TheError`, `ended True|False why`.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec

from openintent import AsyncOpenIntentClient
from openintent.workflows.runner import WorkflowRunner
from openintent.workflows.spec import Workflow


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Freezing(AsyncOpenIntentClient):
    """Stops itself before a patch; woken up, it sends it, whatever has become of its lease."""

    freezes_at = 0

    async def patch_state(self, *args, **options):
        self.freezes_at -= 1
        if self.freezes_at != 0:
            return await super().patch_state(*args, **options)
        say("frozen")
        os.kill(os.getpid(), signal.SIGSTOP)
        # In a task of its own: our being cancelled, which is also on its way, does not reach it.
        return await asyncio.shield(asyncio.create_task(self._late(*args, **options)))

    async def _late(self, *args, **options):
        try:
            await super().patch_state(*args, **options)
        except Exception as exc:
            say(f"late {type(exc).__name__}")
            raise
        say("late and accepted")


async def main(workflow: Workflow, url: str, run_id: str, ttl_s: str, patch: str = "0") -> None:
    async with Freezing(url) as client:
        client.freezes_at = int(patch)
        outcome = await WorkflowRunner(client, workflow, run_id, ttl_seconds=float(ttl_s), on_role=say).run()
        say(f"ended {outcome.completed} {outcome.why}")


if __name__ == "__main__":
    written, *rest = sys.argv[1:]
    asyncio.run(main(msgspec.json.decode(Path(written).read_bytes(), type=Workflow), *rest))
