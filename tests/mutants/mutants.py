"""Breaks the program on purpose, one small way at a time, and checks that the tests notice.

    mutants.py [--jobs N] [NAME...]        `make mutants`; NAME may contain * and ?
    mutants.py --dry-run [NAME...]         `make lint`; prints the mutants that do not fit the tree

A mutant is an entry of a table, a file SUBJECT.txt in this folder:

    [pidfile_asked]
    what: the holder of the pid file is not asked again before it is signalled
    notice: tests/bin/test_pidfile.py::test_name[parameters]
    notice: tests/lib/frame_test.c::name_of_the_test
    file: bin/check_deferred/pidfile.c
     a line before the change, where the old text alone occurs twice
    -the old text
    +the new text

At least one test of the `notice` lines must fail. `needs: root` says that they run only as root. A line "@@" begins
another change of the same file, a line "file:" a change of another file. What `git diff` prints may be pasted as it is.
The old text, with the lines around it, must occur exactly once in its file.

Each worker has a built copy of the tree and a server of its own. The named tests must pass there first, with nothing
broken. Then, for each mutant, the worker changes the files, builds, runs the tests and restores the files. A mutant
that does not fit or does not build, or whose tests cannot run, is an error. The exit status is 1 if there was an error
or if a mutant survived.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import fnmatch
import glob
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "harness"))
import psycopg2  # noqa: E402

import pg  # noqa: E402

PYTHON = "/usr/bin/python3"
BUILD_LIMIT_S, TEST_LIMIT_S, ALL_TESTS_LIMIT_S = 300, 120, 1200
# Of build/, what a copy needs to go on from.
BUILT = ("bin", "gen", "lib", "obj", "plugins", "tests", "flags")

TEMPLATE = "template_build"  # which the tests make where it is missing

Outcome = collections.namedtuple("Outcome", "verdict said")
KILLED, SURVIVED, ERROR = "killed", "SURVIVED", "ERROR"


class Misfit(Exception):
    """Says why a mutant does not fit the tree."""


class Mutant:
    def __init__(self, name, entry):
        self.name, self.changes, heads, file = name, [], collections.defaultdict(list), None
        for line in entry.rstrip("\n").split("\n"):
            if head := re.match(r"(what|notice|needs|file): (.*?) *$", line) or re.match(r"(\+\+\+) b/(\S+)$", line):
                heads[head[1]].append(head[2])
                file = head[2] if head[1] in ("file", "+++") else None
                self.changes += [(file, [], [])] if file else []
            elif line.startswith("@@") and file:
                self.changes += [(file, [], [])] if any(self.changes[-1][1:]) else []
            elif file and line[:1] in ("", " ", "-", "+"):
                for mark, lines in zip("+-", self.changes[-1][1:]):
                    lines += [] if line.startswith(mark) else [line[1:] + "\n"]
            elif not re.match(r"diff --git |index |--- a/", line):
                sys.exit(f"mutants.py: mutant '{name}': cannot read the line '{line}'")
        self.changes = [(file, "".join(old), "".join(new)) for file, old, new in self.changes]
        self.what, self.notice, self.for_root = " ".join(heads["what"]), heads["notice"], "root" in heads["needs"]
        self.files = {file for file, _, _ in self.changes}

    def broken(self, tree):
        """The text of each file with its changes."""
        texts = {}
        for file, old, new in self.changes:
            if file not in texts:
                with open(os.path.join(tree, file)) as f:
                    texts[file] = f.read()
            texts[file], count = re.subn("(?m)^" + re.escape(old), lambda _: new, texts[file])
            if count != 1:
                raise Misfit(f"{file}: must occur exactly once, and occurs {count} times:\n{old}")
        return texts

    def misfit(self, tree):
        """None, or why it does not fit the tree."""
        try:
            self.broken(tree)
        except (Misfit, OSError) as e:
            return str(e)

    def remakes_database(self):
        return any(f.startswith(("sql/migrations/", "sql/functions/", "sql/views/")) for f in self.files)


def load(names=()):
    """All mutants that this user can try, or those of these names, by name."""
    found = []
    for path in sorted(set(glob.glob(os.path.join(HERE, "*"))) - set(glob.glob(os.path.join(HERE, "*.py")))):
        if not path.endswith(".txt"):
            sys.exit(f"mutants.py: {os.path.basename(path)}: is not a table; move its mutants into SUBJECT.txt")
        with open(path) as f:
            found += [Mutant(*entry.split("]\n", 1)) for entry in re.split(r"(?m)^\[", f.read())[1:]]
    for name in names:
        if not any(fnmatch.fnmatch(m.name, name) for m in found):
            sys.exit(f"mutants.py: no mutant is named '{name}'")
    return [
        m
        for m in found
        if (os.geteuid() == 0 or not m.for_root) and (not names or any(fnmatch.fnmatch(m.name, n) for n in names))
    ]


def unit(test):
    """The program of a unit test, and the test's name in it; None for one of pytest's."""
    match = re.fullmatch(r"(tests/lib/\w+)\.c::(\w+)", test)
    return match and match.groups()


called = set()


def call(args, tree, limit_s, env=None):
    """(exit status, output); the status is None when the time was up. Its process group goes with it."""
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(
            args, cwd=tree, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        called.add(process)
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None, f"not within {limit_s} s"
        finally:
            called.discard(process)
        said.seek(0)
        return process.returncode, said.read()


class Tree:
    """A built copy of the tree, and a server with the database that its tests copy."""

    def __init__(self, folder):
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(
            pg.TOP,
            folder,
            symlinks=True,
            ignore=lambda at, names: {"build", ".git"} & set(names) if at == pg.TOP else (),
        )
        os.mkdir(os.path.join(folder, "build"))
        for name in BUILT + tuple(os.path.basename(t) for t in glob.glob(os.path.join(pg.BUILD, "pgtemplate-[0-9]*"))):
            pg.copy(os.path.join(pg.BUILD, name), os.path.join(folder, "build"))
        self.root = pg.make_root("deferred-mutants.")
        # Without DEFERRED_TEST_ROOT, which marks what tests start and do not end.
        self.cluster = pg.Cluster(os.path.join(self.root, "pg")).start()

    def close(self):
        pg.sweep(self.root)
        shutil.rmtree(self.folder, ignore_errors=True)

    def make(self, tests):
        """(exit status, output). Of the programs of unit tests only those that are asked for."""
        goals = sorted({"build/" + unit(t)[0] for t in tests if unit(t)}) + ["test-parts"] * any(
            not unit(t) for t in tests
        )
        return call(["make", "-s", "-j2", *goals], self.folder, BUILD_LIMIT_S)

    def drop(self, database):
        connection = psycopg2.connect(self.cluster.conninfo())
        connection.autocommit = True
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(f"drop database if exists {database} with (force)")

    def run_units(self, program, names, limit_s):
        """None if these tests of the program passed, else an Outcome."""
        self.drop("unit")
        pg.migrate(self.cluster.create_db("unit"), os.path.join(self.folder, "build"))
        env = {
            **self.env(),
            "DEFERRED_TEST_DB": self.cluster.conninfo("unit"),
            "DEFERRED_CONFIG": "/dev/null",
            "CMOCKA_MESSAGE_OUTPUT": "TAP",
        }
        status, said = call([os.path.join("build", program)], self.folder, limit_s, env)
        if status is None or status < 0:
            return Outcome(KILLED, f"{program}: {'signal %d' % -status if status else said}")
        failed = [n for n in names if re.search(rf"(?m)^not ok \d+ - {n}\b", said)]
        unseen = [n for n in names if not re.search(rf"(?m)^(not )?ok \d+ - {n}\b", said)]
        if unseen:
            return Outcome(ERROR, f"{program} has no test named {unseen[0]}, or did not come to it\n{said}")
        return Outcome(KILLED, failed[0]) if failed else None

    def run_pytest(self, tests, limit_s):
        status, said = call(
            [PYTHON, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests], self.folder, limit_s, self.env()
        )
        if status is None:
            return Outcome(KILLED, said)
        failed = re.findall(r"(?m)^FAILED \S+?::(.+?)(?: - .*)?$", said)
        if status == 1 and failed:
            return Outcome(KILLED, failed[0])
        return None if status == 0 else Outcome(ERROR, said)

    def env(self):
        return {**os.environ, "DEFERRED_TEST_ROOT": self.root, "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, tests, limit_s=TEST_LIMIT_S):
        """The Outcome of these tests, of which the first that fails counts."""
        programs = collections.defaultdict(list)
        for test in filter(unit, tests):
            program, name = unit(test)
            programs[program].append(name)
        rest = [t for t in tests if not unit(t)]
        try:
            for program, names in programs.items():
                if outcome := self.run_units(program, names, limit_s):
                    return outcome
            return rest and self.run_pytest(rest, limit_s) or Outcome(SURVIVED, "")
        except pg.PgError as e:
            return Outcome(ERROR, str(e))
        finally:
            for pid in pg.processes_with("DEFERRED_TEST_ROOT", self.root) + pg.processes_with(
                "DEFERRED_INSTANCE", self.root + "/"
            ):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def try_mutant(self, mutant):
        try:
            broken = mutant.broken(self.folder)
        except (Misfit, OSError) as e:
            return Outcome(ERROR, str(e))
        try:
            for file, text in broken.items():
                with open(os.path.join(self.folder, file), "w") as f:
                    f.write(text)
            if mutant.remakes_database():
                self.drop(TEMPLATE)
            status, said = self.make(mutant.notice)
            return Outcome(ERROR, "it does not build\n" + said) if status != 0 else self.run(mutant.notice)
        finally:
            self.restore(mutant)
            if mutant.remakes_database():
                self.drop(TEMPLATE)

    def restore(self, mutant):
        """As it was, but younger than what was built of the mutant."""
        for file in mutant.files:
            shutil.copyfile(os.path.join(pg.TOP, file), os.path.join(self.folder, file))


def unmutated(tree, tests):
    """Nothing, or what fails although nothing was broken."""
    status, said = tree.make(tests)
    outcome = Outcome(ERROR, said) if status != 0 else tree.run(tests, ALL_TESTS_LIMIT_S)
    return "" if outcome.verdict == SURVIVED else outcome.said


def try_all(trees, mutants):
    """Prints what becomes of each; returns how often each verdict was given."""
    free, count, began = queue.SimpleQueue(), collections.Counter(), time.monotonic()
    tests = sorted({t for m in mutants for t in m.notice})
    for tree in trees:
        free.put(tree)

    def in_free_tree(function, what):
        tree = free.get()
        try:
            return function(tree, what)
        finally:
            free.put(tree)

    with concurrent.futures.ThreadPoolExecutor(len(trees)) as workers:
        try:
            shares = [s for s in (tests[n :: len(trees)] for n in range(len(trees))) if s]
            failed = [f for f in workers.map(lambda share: in_free_tree(unmutated, share), shares) if f]
            if failed:
                print("\n".join(failed))
                sys.exit("mutants.py: with nothing broken tests fail already: what they say of mutants means nothing")
            print(f"{len(tests)} tests pass with nothing broken; {time.monotonic() - began:.0f} s", flush=True)
            running = {workers.submit(in_free_tree, Tree.try_mutant, m): m for m in mutants}
            for future in concurrent.futures.as_completed(running):
                mutant, outcome = running[future], future.result()
                count[outcome.verdict] += 1
                print(
                    f"{outcome.verdict:8} {mutant.name}: {mutant.what}"
                    + (f" [{outcome.said}]" if outcome.said else ""),
                    flush=True,
                )
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            for process in list(called):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    mutants, began, trees = load(args.names), time.monotonic(), []
    if args.dry_run:
        misfits = [f"mutant '{m.name}': {why}" for m in mutants if (why := m.misfit(pg.TOP))]
        sys.exit("\n".join(misfits) or None)
    # What make and the user's shell say is not meant for what runs here.
    for name in [
        n
        for n in os.environ
        if n.startswith(("DEFERRED_", "MAKE", "MFLAGS", "PG")) and n not in ("PG_BINDIR", "DEFERRED_TEST_TMP")
    ]:
        del os.environ[name]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(130))
    pg.template()
    try:
        for n in range(max(1, min(args.jobs, len(mutants)))):
            trees.append(Tree(os.path.join(pg.BUILD, "mutants", f"tree{n + 1}")))
        count = try_all(trees, mutants)
    finally:
        for tree in trees:
            tree.close()
    print(f"{time.monotonic() - began:.0f} s" + ("" if os.geteuid() == 0 else "; what needs root was left out"))
    print(f"{count[KILLED]} killed, {count[SURVIVED]} survived" + (f", {count[ERROR]} errors" if count[ERROR] else ""))
    sys.exit(1 if count[SURVIVED] or count[ERROR] else 0)


if __name__ == "__main__":
    main()
