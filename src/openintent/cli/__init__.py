"""The command line: `openintent serve`, `openintent hold SCOPE -- CMD`, `openintent leases`, `openintent intents`."""

from openintent.cli.root import main

__all__ = ["main"]
