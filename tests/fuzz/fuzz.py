"""Searches a target for inputs that break a promise, led by which code they reach: `fuzz.py TARGET --seconds N`.

This needs atheris (`pip install atheris`), which does not run everywhere; `test_fuzz.py` does without it. An input
that breaks something is shown as a line for the target's file in `corpus`.
"""

import argparse
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
INPUT_BYTES_MAX = 4_096


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Search a target for inputs that break a promise.")
    parser.add_argument("target", help="one of the files in corpus, without .hex")
    parser.add_argument("--seconds", type=int, default=60)
    return parser.parse_args()


def find_words() -> None:
    """Let the tests' own modules be found, as pytest does."""
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    sys.path += [str(ROOT / each) for each in configured["tool"]["pytest"]["ini_options"]["pythonpath"]]


def main() -> None:
    asked = arguments()
    find_words()
    try:
        import atheris
    except ImportError:
        sys.exit("fuzz.py needs atheris: .venv/bin/pip install atheris")
    with atheris.instrument_imports(include=["openintent"]):
        import targets
    if asked.target not in targets.TARGETS:
        sys.exit(f"no such target: {asked.target}; there are {', '.join(targets.TARGETS)}")
    search(atheris, targets.TARGETS[asked.target], targets.corpus(asked.target), asked.seconds)


def search(atheris: Any, target: Any, seeds: list[bytes], seconds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(seeds):
            (Path(folder) / str(number)).write_bytes(data)

        def guarded(data: bytes) -> None:
            try:
                target(data)
            except BaseException:
                print(f"{data.hex()}  # broke a promise", flush=True)  # noqa: T201  # the line that the user needs
                raise

        options = [f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}", f"-artifact_prefix={folder}/"]
        atheris.Setup([sys.argv[0], *options, folder], guarded)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
