"""The guide, as its reader follows it: every Python block, in order, against a server at the usual address."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from serverprocess import ServerProcess

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "guide.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_every_python_block_of_the_guide_runs_after_the_ones_before_it(tmp_path):
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(blocks) >= 8
    program = tmp_path / "guide.py"
    program.write_text("\n".join(blocks), encoding="utf-8")
    server = ServerProcess(tmp_path / "guide.db")
    server.start()
    try:
        env = os.environ | {"OPENINTENT_URL": f"http://127.0.0.1:{server.port}"}
        outcome = subprocess.run(
            [sys.executable, program], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=40, check=False
        )
    finally:
        server.kill()
    assert outcome.returncode == 0, outcome.stderr
    assert "ada holds it; try again in" in outcome.stdout
    assert "refused: " in outcome.stdout
    assert "only one nightly job on this machine" in outcome.stdout
