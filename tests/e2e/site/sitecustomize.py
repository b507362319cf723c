"""Python runs this first, in each process of a server that is to be traced: its first process for the file is."""

import json
import os
import sys
from pathlib import Path

PROGRAM = "openintent.engines.apart_program"

if PROGRAM in sys.orig_argv:
    command = json.loads(os.environ.pop("STRACED"))
    if not Path(command[command.index("-o") + 1]).exists():
        os.execvp(command[0], [*command, sys.executable, *sys.orig_argv[1:]])  # noqa: S606  # no shell is wanted
