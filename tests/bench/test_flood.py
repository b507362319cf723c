"""The generator's flood: many requests at a time on one connection, and every answer is counted for what it is."""

import json
import shutil
import socketserver
import subprocess
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent.parent / "bench" / "leaseload.c"
AT_ONCE = 16

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def leaseload(tmp_path_factory):
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed (Debian package gcc)")
    program = tmp_path_factory.mktemp("build") / "leaseload"
    subprocess.run(["cc", "-O1", "-o", str(program), str(SOURCE), "-lm"], check=True)
    return program


class Scripted(socketserver.StreamRequestHandler):
    """Grants three acquires of four; who is refused is told when to come back every other time only."""

    disable_nagle_algorithm = True

    def handle(self):
        while request := self.rfile.readline():
            method, path = request.split()[:2]
            headers = dict(line.split(b": ") for line in iter(lambda: self.rfile.readline().rstrip(), b""))
            self.rfile.read(int(headers.get(b"Content-Length", 0)))
            self.wfile.write(self.answer(method.decode(), path.decode()))

    def answer(self, method, path):
        if path == "/api/v1/intents":
            return said(200, '{"id": "i"}')
        seen = self.server.seen
        if method == "DELETE":
            seen["released"] += path.rpartition("/")[2] in self.server.granted
            return said(self.server.release_status, "{}")
        seen["asked"] += 1
        if seen["asked"] % 4:
            self.server.granted.add(f"lease{seen['asked']}")
            return said(200, f'{{"scope": "s", "id": "lease{seen["asked"]}"}}')
        seen["refused"] += 1
        return said(429, '{"error": {"id": "none"}}', "Retry-After: 1\r\n" if seen["asked"] % 8 else "")


def said(status, body, headers=""):
    return f"HTTP/1.1 {status} X\r\n{headers}Content-Length: {len(body)}\r\n\r\n{body}".encode()


@contextmanager
def scripted(release_status=200):
    with socketserver.TCPServer(("127.0.0.1", 0), Scripted) as server:
        server.seen, server.granted, server.release_status = Counter(), set(), release_status
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def flood(program, server, *words):
    command = [program, "openintent", "flood", "--port", str(server.server_address[1]), "--conns", "1", "--json"]
    command += ["--warmup", "0", "--seconds", "10", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize("at_once", [1, 5, AT_ONCE])
def test_grants_are_released_and_refusals_are_counted(leaseload, at_once):
    with scripted() as server:
        done = flood(leaseload, server, "--pipeline", str(at_once), "--cycles", "20")
    assert done.returncode == 0, done.stderr
    found, seen = json.loads(done.stdout), server.seen
    assert seen["asked"] == 20 * at_once
    assert seen["released"] == len(server.granted) == seen["asked"] - seen["refused"]
    assert found["overloaded"] == seen["refused"] == 5 * at_once
    assert found["retry_after"] == (seen["refused"] + 1) // 2
    assert found["requests_per_s"] == pytest.approx(2 * found["cycles_per_s"], rel=0.01)  # one grant, one release


def test_a_release_that_is_refused_is_an_error(leaseload):
    with scripted(release_status=429) as server:
        done = flood(leaseload, server, "--pipeline", "4", "--cycles", "2")
    assert done.returncode == 1
    assert "first refusal: HTTP/1.1 429" in done.stderr
    assert json.loads(done.stdout)["errors"] >= len(server.granted) > 0


def test_only_a_flood_and_a_batch_send_several_at_a_time(leaseload):
    words = [leaseload, "openintent", "cycle", "--port", "1", "--pipeline", "2"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (2, "leaseload: --pipeline is for flood and batch only\n")
