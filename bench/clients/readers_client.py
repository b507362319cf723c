"""Many readers of one intent's events, on bare sockets, and one who changes it."""

import http.client
import json
import selectors
import socket
import time
from typing import Any

from pace import Window, arguments, processor_s, tell

UNDER_WAY_MAX = 8  # changes whose events have not reached everybody, in the second half
GIVE_UP_S = 30.0
AGENT = {"X-Agent-ID": "writer", "Content-Type": "application/json", "If-Match": "*"}


class Room:
    """The readers. Each counts the events that it has; the ids are `id:` lines, which pings do not have."""

    def __init__(self, port: int, intent: str, count: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.seen = [0] * count
        self.tails = [b""] * count
        for number in range(count):
            line = socket.create_connection(("127.0.0.1", port))
            line.sendall(f"GET /api/v1/subscribe/intents/{intent} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            self.selector.register(line, selectors.EVENT_READ, number)
        self.heads = 0
        while self.heads < count:
            self.read(lambda _number, _count: None)

    def read(self, seen: Any, timeout_s: float = GIVE_UP_S) -> None:
        """Take what has come; `seen` is told of each reader's new events."""
        for key, _ in self.selector.select(timeout_s):
            number = key.data
            data = self.tails[number] + key.fileobj.recv(65_536)  # type: ignore[union-attr]
            if data.startswith(b"HTTP/"):
                assert data.startswith(b"HTTP/1.1 200"), data
                self.heads += 1
            # A line that is cut in two is counted when its end has come.
            cut = data.rfind(b"\n") + 1
            count = data.count(b"\nid:", 0, cut) + data.startswith(b"id:", 0, cut)
            self.tails[number] = b"\n" + data[cut:] if cut else data
            if count:
                self.seen[number] += count
                seen(number, count)

    @property
    def behind(self) -> int:
        return min(self.seen)


class Writer:
    def __init__(self, port: int) -> None:
        self.line = http.client.HTTPConnection("127.0.0.1", port)
        self.intent: str = self._ask("POST", "intents", {"title": "followed"})["id"]
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.changes = 0

    def _ask(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.line.request(method, f"/api/v1/{path}", json.dumps(body), AGENT)
        found: dict[str, Any] = json.loads(self.line.getresponse().read())
        return found

    def change(self) -> float:
        """Send one, without waiting for its answer; when it left."""
        self.changes += 1
        body = json.dumps({"patches": [{"op": "set", "path": "n", "value": self.changes}]})
        head = f"PATCH /api/v1/intents/{self.intent}/state HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        head += "If-Match: *\r\nX-Agent-ID: writer\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        left_s = time.perf_counter()
        self.socket.sendall((head + body).encode())
        return left_s

    def take_answers(self) -> None:
        self.socket.setblocking(False)  # noqa: FBT003  # its one argument
        try:
            while self.socket.recv(1 << 20):
                pass
        except BlockingIOError:
            self.socket.setblocking(True)  # noqa: FBT003


def one_by_one(room: Room, writer: Writer, seconds: float) -> tuple[Window, list[float]]:
    window, last_ms = Window(seconds), list[float]()
    while not window.over:
        left_s, wanted = writer.change(), room.behind + 1

        def seen(_number: int, _count: int, left_s: float = left_s) -> None:
            window.add(left_s)

        while room.behind < wanted and time.perf_counter() < left_s + GIVE_UP_S:
            room.read(seen)
        last_ms.append((time.perf_counter() - left_s) * 1_000)
        writer.take_answers()
    return window, last_ms


def at_full_speed(room: Room, writer: Writer, seconds: float) -> float:
    """Deliveries a second."""
    began_s, before, offset = time.perf_counter(), sum(room.seen), writer.changes - room.behind
    while time.perf_counter() < began_s + seconds:
        while writer.changes - offset - room.behind < UNDER_WAY_MAX:
            writer.change()
        room.read(lambda _number, _count: None)
        writer.take_answers()
    took_s, delivered = time.perf_counter() - began_s, sum(room.seen) - before
    give_up_s = time.perf_counter() + GIVE_UP_S
    while room.behind < writer.changes - offset and time.perf_counter() < give_up_s:
        room.read(lambda _number, _count: None, 1.0)
    return delivered / took_s


def main() -> None:
    told = arguments(__doc__)
    writer = Writer(told.port)
    room = Room(told.port, writer.intent, told.readers)
    used_s, began_s = processor_s(), time.perf_counter()
    window, last_ms = one_by_one(room, writer, told.seconds)
    per_s = at_full_speed(room, writer, told.seconds)
    missed = sum(max(room.seen) - each for each in room.seen)
    cpu = (processor_s() - used_s) / (time.perf_counter() - began_s)
    last = sorted(last_ms)[len(last_ms) // 2]
    tell(window.figures(per_s=per_s, last_p50_ms=last, errors=missed, client_cpu=cpu))


if __name__ == "__main__":
    main()
