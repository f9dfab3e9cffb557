"""Runs all tests of one or more builds and ends with the plain line `N passed, M failed`.

    check.py [--faults] [--seed N] [--quick] [--threads BUILD] [--unit BUILD] [--shortened BUILD]
    [--server FOLDER] BUILD...
             [-- ARGUMENT...]

Per build: the unit tests (build/tests/lib/*_test and tests/lib/*_test.sh, through prove), then pytest.
The build of --threads has unit tests only, those under ThreadSanitizer, which need no server; that
of --unit unit tests only. Of that of
--shortened, run after the others, pytest runs each test once, with its first parameters, and none
that is marked `slow`. With --quick no build's pytest runs those. With --faults only the tests
marked `long`, with a seed that is printed.

Arguments after -- narrow the run. tests/lib/NAME_test.c or .sh names a unit test. All other arguments go to pytest,
which then runs slow tests too. What no argument names does not run, and a line says so.

--server names the folder of another PostgreSQL server: see use_server() in pg.py. Whatever happens, servers and folders
made for the run are removed.

A test that failed in parallel with others and then passed alone is named in the closing lines. More
than ALONE_MAX such tests fail the run.
"""

import argparse
import glob
import os
import random
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

sys.dont_write_bytecode = True
import harness  # noqa: E402
import pg  # noqa: E402

PYTHON = "/usr/bin/python3"
AT_A_TIME = max(4, min(2 * len(os.sched_getaffinity(0)) + 1, 12))  # tests; some of them wait for something

# Tests run processes beside each other and judge how things went in time, on a machine that may be busy with something
# else. A test that fails has two more tries, alone, with the seed that it printed, and must pass both. Such a test is a
# finding, and more than ALONE_MAX of them fail the run.
AGAIN_MAX = 12  # more failures than these are not tried again
ALONE_MAX = 3


def unit_tests(build, cluster, named=("tests/lib/*_test.c", "tests/lib/*_test.sh")):
    """Returns (passed, failed) of the TAP tests whose sources are named."""
    dbname = "unit_" + os.path.basename(build)
    pg.migrate(cluster.create_db(dbname), os.path.join(pg.TOP, build))
    env = {
        **harness.base_env(),
        "DEFERRED_TEST_DB": cluster.conninfo(dbname),
        "DEFERRED_BUILD": build,
        "DEFERRED_CONFIG": "/dev/null",
        **(harness.sanitizer_env(True) if os.path.basename(build) == "san" else {}),
    }
    sources = sorted(source for name in named for source in glob.glob(name))
    return prove(build, [os.path.join(build, s[:-2]) if s.endswith(".c") else s for s in sources], env)


def thread_tests(build):
    """The same of the programs that are also run under ThreadSanitizer; a race it finds makes a program fail."""
    env = {**os.environ, "TSAN_OPTIONS": "halt_on_error=0:exitcode=66:second_deadlock_stack=1"}
    return prove(build, sorted(glob.glob(os.path.join(build, "tests/lib/*_test"))), env)


def prove(build, programs, env):
    if not programs:
        return 0, 0
    done = subprocess.run(
        ["prove", "-v", "--merge"] + programs,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    passed = len(re.findall(r"(?m)^ok \d", done.stdout))
    failed = len(re.findall(r"(?m)^not ok \d", done.stdout))
    if done.returncode != 0:
        # A program that crashed or leaked has failed, whatever it had reported before.
        failed = max(failed, 1)
        print(done.stdout)
    else:
        print(f"{build}: {len(programs)} unit test programs, {passed} tests passed")
    return passed, failed


def passes_alone(build, test, seed=None):
    again = {"DEFERRED_TEST_SEED": seed} if seed else {}
    return all(
        subprocess.run(
            [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
            env={**os.environ, "DEFERRED_BUILD": build, "PYTHONDONTWRITEBYTECODE": "1", **again},
            stdin=subprocess.DEVNULL,
        ).returncode
        == 0
        for _ in range(2)
    )


def integration_tests(build, markers, arguments, shortened=False):
    """Returns (passed, failed, skipped, those that passed only alone) of pytest."""
    report = os.path.join(pg.TOP, build, "tests", "pytest.xml")
    if os.path.exists(report):
        os.unlink(report)
    subprocess.run(
        [
            PYTHON,
            "-m",
            "pytest",
            "-q",
            "-n",
            str(AT_A_TIME),
            "-m",
            markers,
            "--junitxml",
            report,
            "-o",
            "junit_family=xunit1",
            "-o",
            "junit_logging=system-out",
            "-o",
            "junit_log_passing_tests=false",
            "--durations=5",
            "-rfE",
        ]
        + arguments,
        env={
            **os.environ,
            "DEFERRED_BUILD": build,
            "PYTHONDONTWRITEBYTECODE": "1",
            **({"DEFERRED_TEST_SHORTENED": "1"} if shortened else {}),
        },
        stdin=subprocess.DEVNULL,
    )
    try:
        suite = xml.etree.ElementTree.parse(report).getroot().find("testsuite")
    except (OSError, xml.etree.ElementTree.ParseError):
        print(f"{build}: pytest left no report")
        return 0, 1, 0, []
    count = {k: int(suite.get(k)) for k in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    bad = [
        case for case in suite.iter("testcase") if case.find("failure") is not None or case.find("error") is not None
    ]
    alone = []
    for case in bad if len(bad) <= AGAIN_MAX else []:
        test = case.get("classname").replace(".", "/") + ".py::" + case.get("name")
        seed = re.search(r"DEFERRED_TEST_SEED=(\d+)", "".join(case.itertext()))
        if passes_alone(build, test, seed and seed[1]):
            alone.append(f"{build}: {test}")
    failed -= len(alone)
    return max(count["tests"] - failed - count["skipped"], 0), failed, count["skipped"], alone


def verdict(passed, failed, alone):
    """The closing lines, and whether the run has failed."""
    lines = []
    if alone:
        lines = [f"{len(alone)} of them passed only alone, and failed in parallel (at most {ALONE_MAX} may):"]
        lines += [f"    {test}" for test in alone]
    if len(alone) > ALONE_MAX:
        passed, failed = passed - len(alone), failed + len(alone)
    return lines + [f"{passed} passed, {failed} failed"], failed > 0 or passed == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", metavar="BUILD")
    parser.add_argument("--unit", metavar="BUILD")
    parser.add_argument("--shortened", metavar="BUILD")
    parser.add_argument("--server", metavar="FOLDER")
    parser.add_argument("builds", nargs="+")
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    args, narrowed = parser.parse_args(arguments[:cut]), arguments[cut + 1 :]
    units = [a for a in narrowed if re.fullmatch(r"tests/lib/\w+_test\.(c|sh)", a)]
    rest = [a for a in narrowed if a not in units]
    quick = args.quick and not narrowed
    markers = "long" if args.faults else "not long and not slow" if quick else "not long"
    if args.faults:
        seed = args.seed if args.seed is not None else random.SystemRandom().randrange(10**6)
        os.environ["DEFERRED_TEST_SEED"] = str(seed)
        print(f"seed {seed}: repeat with `make check-faults SEED={seed}`", flush=True)

    # So that an interrupt still comes to the sweep below.
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    os.chdir(pg.TOP)
    root = pg.make_root("deferred-check.")
    os.environ["DEFERRED_TEST_ROOT"] = root
    began, passed, failed, skipped, alone = time.monotonic(), 0, 0, 0, []
    try:
        if args.server:
            pg.use_server(args.server, root)
        if args.threads and not narrowed:
            passed, failed = thread_tests(args.threads)
        cluster = pg.Cluster(os.path.join(root, "pg")).start()
        if args.unit and not narrowed:
            p, f = unit_tests(args.unit, cluster)
            passed, failed = passed + p, failed + f
        for build in args.builds + ([args.shortened] if args.shortened else []):
            if units or (not args.faults and not narrowed):
                p, f = unit_tests(build, cluster, units) if units else unit_tests(build, cluster)
                passed, failed = passed + p, failed + f
            if rest or not narrowed:
                p, f, s, a = integration_tests(build, markers, rest, build == args.shortened and not narrowed)
                passed, failed, skipped, alone = passed + p, failed + f, skipped + s, alone + a
    finally:
        del os.environ["DEFERRED_TEST_ROOT"]
        pg.sweep(root)
    print(
        f"{time.monotonic() - began:.0f} s"
        + (f", {skipped} skipped" if skipped else "")
        + ("; the slow ones, and all of them under the sanitizers, are run by `make check WHOLE=1`" if quick else "")
    )
    if narrowed and not (units and rest):
        print(f"no {'test of pytest' if units else 'unit test'} was named, so none ran")
    lines, bad = verdict(passed, failed, alone)
    print("\n".join(lines), flush=True)
    sys.exit(bad)


if __name__ == "__main__":
    main()
