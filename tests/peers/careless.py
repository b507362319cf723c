"""A lock service that grants everything to everybody, always with the same token: what the checks must see through.

Run as: careless.py PORT
"""

import json
import sys
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from peer import Peer, Program, python_path
from peerhttp import HttpLocks

READY = "careless at "


class Careless(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in two packets waits for the other side's delayed acknowledgement

    def _yes(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        answer = json.dumps({"id": "any", "token": 1, "expires_at": datetime.now(UTC).isoformat()}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PATCH = do_DELETE = _yes  # noqa: N815 - the names that the standard library looks for

    def log_message(self, *_: object) -> None: ...


class CarelessPeer(Peer):
    name = "careless"
    version = "0"
    settings = "grants everything"
    fences = True
    repeats = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._program = Program(folder / f"careless-{self.port}.log", ready=READY, environment=python_path())

    async def start(self) -> bool:
        return await self._program.start([*self.wrapper, sys.executable, __file__, str(self.port)])

    def kill(self) -> None:
        self._program.kill()

    def locks(self, port: int | None = None) -> HttpLocks:
        return HttpLocks(port or self.port, "/leases")

    def second(self) -> "CarelessPeer":
        return CarelessPeer(self.folder)

    def spelled(self) -> list[str]:
        return ["http", str(self.port), "/leases"]


if __name__ == "__main__":
    ThreadingHTTPServer.request_queue_size = 64  # racers come all at once
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Careless)
    sys.stdout.write(f"{READY}{server.server_port}\n")
    server.serve_forever()
