"""Chance, where all it does is spread many clients over time: it hides nothing.

It has a source of its own: a program that seeds `random` draws its own numbers there, whatever our threads do.
"""

import os
import random
from typing import Final

SPREAD: Final = random.Random()  # noqa: S311

if hasattr(os, "register_at_fork"):  # a child must not draw what its parent draws
    os.register_at_fork(after_in_child=SPREAD.seed)
