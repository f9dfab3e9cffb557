"""The mutants of this folder fit the tree as it is: `make mutants` tries them, which takes minutes."""

import os
import re
import subprocess

import mutants
import pg

MUTANTS = mutants.load()


def test_every_mutant_says_what_is_broken_and_who_should_notice():
    assert len(MUTANTS) >= 220 or os.geteuid() != 0
    assert [m.name for m in MUTANTS if not (m.what and m.notice and m.files)] == []
    assert len({m.patch for m in MUTANTS}) == len(MUTANTS)


def test_every_mutant_applies():
    assert {m.name: why for m in MUTANTS if (why := m.apply(pg.TOP, "--dry-run"))} == {}


def test_the_tests_that_should_notice_exist():
    tests = sorted({t for m in MUTANTS for t in m.notice})
    missing, sources = [], {}
    for program, name in map(mutants.unit, filter(mutants.unit, tests)):
        with open(os.path.join(pg.TOP, program + ".c")) as f:
            sources.setdefault(program, f.read())
        if not re.search(rf"(?m)^static void {name}\(", sources[program]):
            missing.append(f"{program}.c::{name}")
    assert missing == []
    done = subprocess.run([mutants.PYTHON, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *[t for t in tests if not mutants.unit(t)]],
                          cwd=pg.TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
