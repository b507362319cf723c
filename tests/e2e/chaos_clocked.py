"""Holds a lease and is asked how it stands: `chaos_clocked.py URL`. Each line of its input is a question.

It answers with a line of JSON. Its dates come from the wall clock, which somebody may set meanwhile.
"""

import json
import sys
import time

from openintent import OpenIntentClient

TTL_S = 0.8


def main(url: str) -> None:
    with OpenIntentClient(url, agent_id="keeper") as client, client.lease(space="s", scope="kept", ttl=TTL_S) as lease:
        say(token=lease.token)
        for _ in sys.stdin:
            lease.check()
            say(lost=lease.lost.is_set(), remaining_s=lease.remaining, wall_s=time.time())


def say(**answer: object) -> None:
    print(json.dumps(answer), flush=True)  # noqa: T201  # this is what it is for


if __name__ == "__main__":
    main(*sys.argv[1:])
