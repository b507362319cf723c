"""Process groups: a command and whatever it started, unless that went its own way."""

import os


def send(group: int, number: int) -> bool:
    """Whether there was anybody to get it. `PermissionError`: there is, but all of them run as another user."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def is_alive(group: int) -> bool:
    try:
        return send(group, 0)
    except PermissionError:
        return True
