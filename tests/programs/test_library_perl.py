"""The library for Perl: its own tests with each JSON module, and its connections to a real server."""

import os
import shutil

import pytest

import harness
import pg

FOLDER = os.path.join(pg.TOP, "lib", "languages", "perl")
HERE = os.path.join(pg.TOP, "tests", "programs", "perl")
pytestmark = pytest.mark.skipif(not shutil.which("perl"), reason="perl is not installed")


def prove(*tests, **env):
    """Runs files of Test::More. A file without tests fails too."""
    libraries = os.pathsep.join(os.path.join(FOLDER, name) for name in ("lib", "t"))
    done = harness.run(["prove", "--merge", "--verbose", *tests], env={"PERL5LIB": libraries, **env}, cwd=FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("options", ["", "-MCoreOnly"], ids=["any_json", "core_json"])
def test_its_own_tests_pass(options):
    prove("t", PERL5OPT=options)


def test_it_defers_and_finishes_on_connections_of_dbi(db):
    prove(os.path.join(HERE, "connection.t"), DEFERRED_TEST_DB=db.conninfo)


def test_its_documentation_is_well_formed():
    for name in ("Program", "Job", "Test"):
        path = os.path.join(FOLDER, "lib", "Deferred", name + ".pm")
        done = harness.run(["podchecker", "-warnings", "-warnings", path])
        assert (done.returncode, done.stdout + done.stderr) == (0, f"{path} pod syntax OK.\n")


def test_it_has_the_version_of_the_programs():
    done = harness.run(
        ["perl", "-MDeferred::Program", "-e", "print substr Deferred::Program->VERSION, 1"],
        env={"PERL5LIB": os.path.join(FOLDER, "lib")},
    )
    assert done.stdout == harness.run(["deferred", "--version"]).stdout.split()[1]
