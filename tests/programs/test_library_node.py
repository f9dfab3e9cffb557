"""The library for Node: its own tests, its types, and its connections to a real server."""

import json
import os
import shutil

import pytest

import harness
import node
import pg

FOLDER = os.path.join(pg.TOP, "lib", "languages", "node")
HERE = os.path.join(pg.TOP, "tests", "programs", "node")
pytestmark = pytest.mark.skipif(
    not (shutil.which("npm") and os.path.exists(node.NODE)), reason="node or npm is not installed"
)


def run_tests(*files, cwd=FOLDER, **env):
    done = harness.run([node.NODE, "--test", *files], env=env, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 0" not in done.stdout


def test_its_own_tests_pass():
    run_tests("test/")


@pytest.fixture(scope="module")
def packages():
    """The client pg and the compiler of TypeScript, with the library next to them as npm installs it."""
    folder = node.install("programs", HERE)
    node.scripts(folder, HERE)
    library = os.path.join(folder, "node_modules", "deferred-program")
    shutil.rmtree(library, ignore_errors=True)
    with open(os.path.join(FOLDER, "package.json")) as f:
        files = ["package.json", *json.load(f)["files"]]
    os.makedirs(library)
    for name in files:
        shutil.copy(os.path.join(FOLDER, name), library)
    return folder


def test_it_defers_and_finishes_on_clients_of_pg(db, packages):
    run_tests(
        "connection.mjs",
        cwd=packages,
        PGHOST=db.cluster.folder,
        PGPORT=str(pg.PORT),
        PGUSER=pg.USER,
        PGDATABASE=db.name,
    )


def test_its_types_fit(packages):
    shutil.copy(os.path.join(HERE, "types.mts"), packages)
    compiler = os.path.join("node_modules", "typescript", "bin", "tsc")
    options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--types", "node"]
    done = harness.run([node.NODE, compiler, *options, "types.mts"], cwd=packages)
    assert done.returncode == 0, done.stdout


def test_it_has_the_version_of_the_programs():
    with open(os.path.join(FOLDER, "package.json")) as f:
        assert json.load(f)["version"] == harness.run(["deferred", "--version"]).stdout.split()[1]
