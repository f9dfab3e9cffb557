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


def test_every_mutant_applies_in_one_place():
    assert {m.name: why for m in MUTANTS if (why := m.misfit(pg.TOP))} == {}


def test_a_mutant_that_does_not_fit_is_named(tmp_path):
    """A line that it quotes has other words, or stands in the file twice."""
    (tmp_path / "f.c").write_text("one\ntwo\nthree\n")
    (tmp_path / "m.patch").write_text("what: w\nnotice: n\n\n--- a/f.c\n+++ b/f.c\n"
                                      "@@ -1,3 +1,2 @@\n one\n-two\n three\n")
    mutant = mutants.Mutant(str(tmp_path / "m.patch"))
    assert mutant.misfit(tmp_path) is None
    (tmp_path / "f.c").write_text("one\ntwo\nthree\none\ntwo\nthree\n")
    assert mutant.misfit(tmp_path).startswith("applies in 2 places")
    (tmp_path / "f.c").write_text("one\n2\nthree\n")
    assert "FAILED" in mutant.misfit(tmp_path)


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
