"""The demo from its beginning to its end: look, let the director act, show."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from openintent import OpenIntentClient
from openintent.cli.demo.cast import AGENTS, Cast
from openintent.cli.demo.director import Director
from openintent.cli.demo.scene import Scene
from openintent.cli.demo.screen import Picture
from openintent.clock import boot_s

TTL_S: Final = 2.0
TTL_SHARE: Final = 0.1  # of the time, if that is short
LOOK_S: Final = 0.1
# On a machine that is too busy for the story to end in time it may take longer.
LONGER_S_MAX: Final = 30.0
EVENTS: Final = ("lease_acquired", "lease_released")
PAGE: Final = 1_000


def ttl_s(seconds: float) -> float:
    return min(TTL_S, seconds * TTL_SHARE)


def play(
    client: OpenIntentClient, cast: Cast, intent_id: str, shows: Callable[[Picture], None], *, seconds: float
) -> Scene:
    never = threading.Event()  # nobody sets it: a wait that Ctrl-C ends
    scene, began_s = Scene(datetime.now(UTC)), boot_s()
    director = Director(cast, scene, lambda lease_id: client.get_lease(lease_id).is_active, seconds=seconds)
    cast.go()
    while True:
        passed_s = boot_s() - began_s
        shows(_look(client, cast, intent_id, scene, director, passed_s=passed_s, seconds=seconds))
        if passed_s >= seconds and director.finished:
            return scene
        if passed_s >= seconds + LONGER_S_MAX:
            scene.broken.append("not all that was to be shown has happened: is this machine very busy?")
            return scene
        never.wait(LOOK_S)


def _look(
    client: OpenIntentClient,
    cast: Cast,
    intent_id: str,
    scene: Scene,
    director: Director,
    *,
    passed_s: float,
    seconds: float,
) -> Picture:
    leases, waiters = client.get_leases(intent_id), client.get_queue(intent_id)
    # After the leases: an event that tells of a grant comes no later than the grant itself.
    scene.hear(client.get_events(intent_id, limit=PAGE, after=scene.seq, types=EVENTS, order="asc"))
    for said in cast.heard():
        scene.late_write(datetime.now(UTC), said)
    director.step(passed_s=passed_s, leases=leases, waiters=waiters)
    states = {name: director.state_of(name, leases) for name in AGENTS}
    return Picture(passed_s, seconds, leases, waiters, states, scene.lines, director.caption)
