"""Each fuzz target takes what is in its corpus; `make fuzz` looks further."""

import glob
import os

import pytest

import harness
import pg

TARGETS = sorted(os.path.basename(p)[:-2] for p in glob.glob(os.path.join(pg.TOP, "tests", "fuzz", "fuzz_*.c")))


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_takes_its_corpus(target):
    corpus = os.path.join(pg.TOP, "tests", "fuzz", "corpus", target)
    done = harness.run([os.path.join(harness.BUILD, "tests", "fuzz", target), corpus])
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(os.listdir(corpus))} inputs\n" and len(os.listdir(corpus)) > 10


@pytest.mark.slow
def test_changes_of_a_corpus_are_taken_too():
    for target in TARGETS:
        corpus = os.path.join(pg.TOP, "tests", "fuzz", "corpus", target)
        done = harness.run(
            [os.path.join(harness.BUILD, "tests", "fuzz", target), corpus, "2", "7"]
        )  # whole seconds of the clock
        assert done.returncode == 0, done.stderr
        assert int(done.stdout.split()[0]) > len(os.listdir(corpus))
