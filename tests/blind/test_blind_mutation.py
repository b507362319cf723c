"""Of the changes that a machine makes blindly in the rules and in the keeper, the tests notice nine of ten.

How many are tried is `PROOF_BLIND`: 0 is none, and any number as large as all of them is all. See proof/blind/blind.py.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from proving import size

PROGRAM: Final = Path(__file__).resolve().parent.parent.parent / "proof" / "blind" / "blind.py"
NO_TOOL: Final = 3  # the program's exit code if mutmut is not to be had
SHARE_MIN: Final = 0.9
CHANGES: Final = size("blind", 0)
SECONDS_EACH: Final = 3  # about a third of one on two idle cores
SECONDS_BEFORE: Final = 600  # until all changes are written down and every test has run once without them


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.busy
@pytest.mark.timeout(SECONDS_BEFORE + SECONDS_EACH * CHANGES)
def test_nine_of_ten_blind_changes_are_noticed(figures):
    if not CHANGES:
        pytest.skip("PROOF_BLIND says how many blind changes to try; 300 take some minutes")
    seed = size("blind_seed", 1)
    command = [sys.executable, str(PROGRAM), "--sample", str(CHANGES), "--seed", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == NO_TOOL:
        assert "CI" not in os.environ, "pip cannot install mutmut"
        pytest.skip("pip cannot install mutmut")
    told = json.loads(done.stdout.splitlines()[-1])
    left = told.pop("left")
    unexplained = [change for change, why in left.items() if why == "not explained"]
    figures.add("blind changes in the rules and the keeper", **told, unexplained="; ".join(unexplained)[:500])
    assert told["share"] >= SHARE_MIN, left
