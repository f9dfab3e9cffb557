"""The mutants of this folder fit the tree as it is: `make mutants` tries them, which takes minutes."""

import os
import re
import subprocess

import pytest

import mutants
import pg

MUTANTS = mutants.load()


def test_every_mutant_says_what_is_broken_and_who_should_notice():
    assert len(MUTANTS) >= 220 or os.geteuid() != 0
    assert [m.name for m in MUTANTS if not (m.what and m.notice and m.files)] == []
    assert len({m.name for m in MUTANTS}) == len({str(m.changes) for m in MUTANTS}) == len(MUTANTS)


def test_every_mutant_fits_the_tree():
    assert {m.name: why for m in MUTANTS if (why := m.misfit(pg.TOP))} == {}


@pytest.mark.parametrize(
    "change",
    [
        "file: f.c\n one\n-two\n+2\n",
        "file: f.c\n one\n-two\n+2\n\n\n",
        "diff --git a/f.c b/f.c\nindex 1..2 100644\n--- a/f.c\n+++ b/f.c\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
    ],
)
def test_a_mutant_that_does_not_fit_is_named(tmp_path, change):
    """A text that it quotes must occur once. It begins with a whole line."""
    mutant = mutants.Mutant("m", "what: w\nnotice: n\n" + change)
    for text, count in ("one\n2\nthree\n", 0), ("one\ntwo\nthree\none\ntwo\nthree\n", 2), ("one one\ntwo\nthree\n", 0):
        (tmp_path / "f.c").write_text(text)
        assert f"f.c: must occur exactly once, and occurs {count} times" in mutant.misfit(tmp_path)
    (tmp_path / "f.c").write_text("one\ntwo\nthree\n")
    assert mutant.misfit(tmp_path) is None and mutant.broken(tmp_path) == {"f.c": "one\n2\nthree\n"}


def test_a_mutant_changes_several_places(tmp_path):
    (tmp_path / "f.c").write_text("one\n\ntwo\nthree\n")
    (tmp_path / "g.c").write_text("-- four\nfive\n")
    change = "file: f.c\n-one\n\n@@\n-three\n+3\nfile: g.c\n--- four\n+++ 4\n"
    mutant = mutants.Mutant("m", "what: w\nnotice: n\nneeds: root\n" + change)
    assert mutant.broken(tmp_path) == {"f.c": "\ntwo\n3\n", "g.c": "++ 4\nfive\n"} and mutant.for_root


def test_a_line_that_means_nothing_is_refused():
    for entry in ("what: w\nfail: f\n", "-one\n", "file: f.c\none\n"):
        with pytest.raises(SystemExit, match="mutant 'm': cannot read the line"):
            mutants.Mutant("m", entry)


def test_the_tests_that_should_notice_exist():
    tests = sorted({t for m in MUTANTS for t in m.notice})
    missing, sources = [], {}
    for program, name in map(mutants.unit, filter(mutants.unit, tests)):
        with open(os.path.join(pg.TOP, program + ".c")) as f:
            sources.setdefault(program, f.read())
        if not re.search(rf"(?m)^static void {name}\(", sources[program]):
            missing.append(f"{program}.c::{name}")
    assert missing == []
    done = subprocess.run(
        [
            mutants.PYTHON,
            "-m",
            "pytest",
            "-q",
            "--collect-only",
            "-p",
            "no:cacheprovider",
            *[t for t in tests if not mutants.unit(t)],
        ],
        cwd=pg.TOP,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
