"""OpenIntent's own package, as it is published, works against our server without a change."""

import subprocess
from pathlib import Path

import pytest
from peerinstall import public_python
from serverprocess import ServerProcess

DRIVE = Path(__file__).with_name("public_client_drive.py")
PARTS = [
    "intents",
    "a_conflict_over_release_2_is_no_lease_conflict",
    "relatives",
    "leases",
    "events",
    "portfolios",
    "coordinators",
    "agents",
    "governance",
    "streams",
]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_public_package_drives_our_server_through_all_that_it_offers(tmp_path):
    server = ServerProcess(tmp_path / "public.db")
    server.start()
    try:
        outcome = subprocess.run(
            [public_python(), "-I", DRIVE, f"http://127.0.0.1:{server.port}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
        )
    finally:
        server.kill()
    assert outcome.returncode == 0, f"{outcome.stdout}\n{outcome.stderr}\n{server.log.read_text()}"
    assert outcome.stdout.split() == PARTS
