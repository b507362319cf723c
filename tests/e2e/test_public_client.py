"""OpenIntent's own package, as it is published, works against our server without a change."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from serverprocess import ServerProcess

VERSION = "0.17.0"
PACKAGE = f"openintent=={VERSION}"
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


@pytest.fixture(scope="session")
def public_python() -> Path:
    """A Python that has the package, in an environment of its own that is kept for the next run."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "openintent-leases-tests" / f"public-{VERSION}-py{sys.version_info.major}{sys.version_info.minor}"
    python = home / "bin" / "python"
    complete = home / "complete"
    if not complete.exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True, timeout=300)
        complete.touch()
    return python


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_public_package_drives_our_server_through_all_that_it_offers(tmp_path, public_python):
    server = ServerProcess(tmp_path / "public.db")
    server.start()
    try:
        outcome = subprocess.run(
            [public_python, "-I", DRIVE, f"http://127.0.0.1:{server.port}"],
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
