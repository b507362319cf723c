"""Every fuzz target over its corpus, and over inputs made from it by chance: no input breaks a promise."""

from random import Random

import pytest
from proving import size
from targets import CORPUS, SLOW, TARGETS, corpus, mutants

INPUTS = size("fuzz_inputs", 2_000)
SEED = size("fuzz_seed", 0)
STEP = 500


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_that_was_once_of_interest_breaks_a_promise(name):
    for data in corpus(name):
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_made_by_chance_breaks_a_promise(name, figures):
    number = INPUTS // SLOW.get(name, 1)
    for done, data in enumerate(mutants(corpus(name), number, Random(SEED))):
        try:
            TARGETS[name](data)
        except BaseException as broken:
            raise AssertionError(f"{name}: {data.hex()}") from broken
        if done % STEP == 0:
            figures.progress(done, number)
    figures.add(f"fuzzed: {name}", inputs=number, failures=0, seed=SEED)


def test_every_target_has_a_corpus_and_every_corpus_a_target():
    assert {file.stem for file in CORPUS.iterdir()} == set(TARGETS)
    assert all(len(corpus(name)) >= 5 for name in TARGETS)


def test_the_same_seed_makes_the_same_inputs():
    assert list(mutants([b"abc"], 50, Random(1))) == list(mutants([b"abc"], 50, Random(1)))
    assert len(set(mutants([b"abc"], 50, Random(1)))) > 25
