"""The agent classes of OpenIntent's own package, as it is published, do their work on our server."""

import json
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
from peerinstall import public_python
from serverprocess import ServerProcess

from openintent import OpenIntentClient

pytestmark = pytest.mark.timeout(400)  # the first time, the package is installed

PROGRAM = Path(__file__).with_name("public_agent.py")
PATIENCE_S = 20.0  # for signals that come at once unless something is broken

Told = dict[str, Any]


class Agent:
    """An agent of the public package, in a process of its own, and what it tells."""

    def __init__(self, kind: str, server: ServerProcess, name: str) -> None:
        self.name = name
        self.answers: list[tuple[str, str, int]] = []
        self._told: queue.SimpleQueue[Told] = queue.SimpleQueue()
        folder = server.log.parent
        command = [public_python(), "-I", PROGRAM, kind, f"http://127.0.0.1:{server.port}", name]
        with (folder / f"{name}.log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder)
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def next(self) -> Told:
        """The next thing that it says, other than what answers it got."""
        return self._first(lambda told: told["what"] != "answer")

    def hears(self, what: str, intent_id: str, **more: Any) -> None:
        assert self.next() == {"what": what, "intent": intent_id, **more}

    def works_on(self, intent_id: str) -> None:
        self.hears("assignment", intent_id)
        self.hears("state_change", intent_id, old={}, new={"pages": 3})

    def subscribed(self) -> None:
        """Until it has a new stream. What it heard before that is left out."""
        self._first(lambda told: told["what"] == "answer" and told["path"].endswith("/subscribe"))

    def _first(self, wanted: Callable[[Told], bool]) -> Told:
        give_up_at = monotonic() + PATIENCE_S
        while not wanted(told := self._told.get(timeout=max(0.0, give_up_at - monotonic()))):
            pass
        return told

    def end(self) -> None:
        """It has a `stop`, but that acts only when the next event comes."""
        with self._process as process:
            process.kill()
            self._reading.join(PATIENCE_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            self._told.put(told)
            if told["what"] == "answer":
                self.answers.append((told["method"], told["path"], told["status"]))


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path_factory.mktemp("public_agent") / "leases.db")
    try:
        process.start()
        yield process
    finally:
        process.kill()


@pytest.fixture
def server(shared_server: ServerProcess) -> ServerProcess:
    return shared_server


@pytest.fixture
def boss(server: ServerProcess) -> Iterator[OpenIntentClient]:
    with OpenIntentClient(f"http://127.0.0.1:{server.port}", agent_id="boss") as client:
        yield client


Start = Callable[..., Agent]


@pytest.fixture
def start(server: ServerProcess) -> Iterator[Start]:
    started: list[Agent] = []

    def start_one(kind: str = "subclass", name: str | None = None) -> Agent:
        started.append(Agent(kind, server, name or f"agent-{uuid4().hex[:8]}"))
        return started[-1]

    yield start_one
    for agent in started:
        agent.end()


def given(boss: OpenIntentClient, name: str, title: str = "report") -> str:
    """An intent that is assigned to it."""
    intent = boss.create_intent(title)
    boss.assign_agent(intent.id, name)
    return intent.id


def working(boss: OpenIntentClient, start: Start, kind: str = "subclass") -> tuple[Agent, str]:
    """An agent that listens, and the intent that it has been given and has worked on."""
    agent = start(kind)
    agent.subscribed()
    intent_id = given(boss, agent.name)
    agent.works_on(intent_id)
    return agent, intent_id


@pytest.mark.parametrize("kind", ["subclass", "decorated"])
def test_it_does_what_it_is_given_and_its_result_is_in_the_state(boss, start, kind):
    agent, intent_id = working(boss, start, kind)
    assert boss.get_intent(intent_id).state == {"pages": 3}
    intent = f"/api/v1/intents/{intent_id}"
    asked = [
        ("GET", f"/api/v1/agents/{agent.name}/subscribe", 200),
        ("GET", intent, 200),
        ("GET", f"{intent}/events", 200),
        ("GET", f"{intent}/acl", 404),  # we have none, and it does without
        ("GET", intent, 200),
        ("POST", f"{intent}/state", 200),
        ("GET", intent, 200),
    ]
    assert agent.answers == asked, "it neither registers nor sends heartbeats"


def test_what_it_was_given_before_it_started_waits_for_it(boss, start):
    intent_id = given(boss, "latecomer")
    start(name="latecomer").works_on(intent_id)


def test_it_hears_that_a_lease_is_free_when_it_was_released_and_when_it_lapsed(boss, start):
    agent, intent_id = working(boss, start)
    released = boss.acquire_lease(intent_id, "research")
    boss.release_lease(boss.acquire_lease(intent_id, "something else").id)
    boss.release_lease(released.id)
    agent.hears("lease_available", intent_id, scope="research")
    boss.acquire_lease(intent_id, "research", ttl_seconds=0.2)
    agent.hears("lease_available", intent_id, scope="research")


def test_it_hears_once_that_an_intent_is_completed(boss, start):
    agent, intent_id = working(boss, start)
    boss.set_status(intent_id, boss.get_intent(intent_id).version, "completed")
    other_id = given(boss, agent.name)
    agent.hears("complete", intent_id)
    agent.works_on(other_id)


def test_what_somebody_else_is_given_is_not_its_work(boss, start):
    agent, intent_id = working(boss, start)
    boss.assign_agent(intent_id, "somebody-else")
    agent.works_on(given(boss, agent.name))


def test_a_worker_does_what_it_is_given(boss, start):
    """It cannot complete the intent: it calls its own client with the arguments the wrong way round."""
    worker = start("worker")
    first_id, second_id = given(boss, worker.name), given(boss, worker.name)
    worker.hears("assignment", first_id)
    worker.hears("assignment", second_id)
    assert boss.get_intent(first_id).state == {"pages": 3}


class TestAnotherServer:
    """Each has a server for itself, since it is killed."""

    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[ServerProcess]:
        process = ServerProcess(tmp_path / "leases.db")
        try:
            process.start()
            yield process
        finally:
            process.kill()

    def test_over_a_crash_of_the_server_nothing_is_missed_and_nothing_done_twice(self, server, boss, start):
        agent, intent_id = working(boss, start)
        server.kill()
        server.start()
        missed_id = given(boss, agent.name)
        agent.works_on(missed_id)
        boss.release_lease(boss.acquire_lease(intent_id, "research").id)
        agent.hears("lease_available", intent_id, scope="research")

    def test_when_the_log_does_not_go_back_so_far_it_begins_anew(self, server, boss, start):
        agent, _ = working(boss, start)
        server.kill()
        server.database = server.database.with_name("other.db")
        server.start()
        agent.works_on(given(boss, agent.name))
