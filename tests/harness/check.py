"""Runs all tests of one or more builds and ends with the plain line `N passed, M failed`.

    check.py [--faults] [--seed N] [--quick] [--threads BUILD] [--unit BUILD] [--shortened BUILD] BUILD... [-- PYTEST-ARGUMENT...]

Per build: the unit tests (build/tests/lib/*_test and tests/lib/*_test.sh, through prove), then pytest.
The build of --threads has unit tests only, those under ThreadSanitizer, which need no server; that of --unit unit tests only. Of that of
--shortened, run after the others, pytest runs each test once, with its first parameters, and none that is marked `slow`. With --quick no
build's pytest runs those. With --faults only the tests marked `long`, with a seed that is printed. Arguments after -- narrow pytest,
slow ones among them or not, and leave the unit tests out. Whatever happens, servers and folders made for the run are removed.
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

# Tests of these folders run processes beside each other and judge how things went in time, on a machine that may be busy with something
# else. What fails in them has two more tries, alone, and must pass both; it is said. Whatever fails elsewhere has failed, and so have
# many at once.
TIMED = ("tests.bench.", "tests.bin.", "tests.faults.", "tests.http.", "tests.web.")
TIMED_MAX = 12


def unit_tests(build, cluster):
    """Returns (passed, failed) of the TAP tests."""
    dbname = "unit_" + os.path.basename(build)
    pg.migrate(cluster.create_db(dbname), os.path.join(pg.TOP, build))
    env = {**harness.base_env(), "DEFERRED_TEST_DB": cluster.conninfo(dbname), "DEFERRED_BUILD": build, "DEFERRED_CONFIG": "/dev/null",
           **(harness.sanitizer_env(True) if os.path.basename(build) == "san" else {})}
    return prove(build, sorted(glob.glob(os.path.join(build, "tests/lib/*_test"))) + sorted(glob.glob("tests/lib/*_test.sh")), env)


def thread_tests(build):
    """The same of the programs that are also run under ThreadSanitizer; a race it finds makes a program fail."""
    env = {**os.environ, "TSAN_OPTIONS": "halt_on_error=0:exitcode=66:second_deadlock_stack=1"}
    return prove(build, sorted(glob.glob(os.path.join(build, "tests/lib/*_test"))), env)


def prove(build, programs, env):
    if not programs:
        return 0, 0
    done = subprocess.run(["prove", "-v", "--merge"] + programs, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    passed = len(re.findall(r"(?m)^ok \d", done.stdout))
    failed = len(re.findall(r"(?m)^not ok \d", done.stdout))
    if done.returncode != 0:
        # A program that crashed or leaked has failed, whatever it had reported before.
        failed = max(failed, 1)
        print(done.stdout)
    else:
        print(f"{build}: {len(programs)} unit test programs, {passed} tests passed")
    return passed, failed


def passes_alone(build, test):
    return all(subprocess.run([PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
                              env={**os.environ, "DEFERRED_BUILD": build, "PYTHONDONTWRITEBYTECODE": "1"},
                              stdin=subprocess.DEVNULL).returncode == 0 for _ in range(2))


def integration_tests(build, markers, arguments, shortened=False):
    """Returns (passed, failed, skipped) of pytest."""
    report = os.path.join(pg.TOP, build, "tests", "pytest.xml")
    if os.path.exists(report):
        os.unlink(report)
    subprocess.run([PYTHON, "-m", "pytest", "-q", "-n", str(AT_A_TIME), "-m", markers, "--junitxml", report, "-o", "junit_family=xunit1",
                    "--durations=5", "-rfE"] + arguments,
                   env={**os.environ, "DEFERRED_BUILD": build, "PYTHONDONTWRITEBYTECODE": "1", **({"DEFERRED_TEST_SHORTENED": "1"} if shortened else {})},
                   stdin=subprocess.DEVNULL)
    try:
        suite = xml.etree.ElementTree.parse(report).getroot().find("testsuite")
    except (OSError, xml.etree.ElementTree.ParseError):
        print(f"{build}: pytest left no report")
        return 0, 1, 0
    count = {k: int(suite.get(k)) for k in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    bad = [case for case in suite.iter("testcase") if case.find("failure") is not None or case.find("error") is not None]
    timed = [case.get("classname").replace(".", "/") + ".py::" + case.get("name") for case in bad
             if case.get("classname").startswith(TIMED)]
    for test in timed if len(timed) <= TIMED_MAX else []:
        if passes_alone(build, test):
            print(f"{build}: failed beside others, passed twice alone: {test}")
            failed -= 1
    return max(count["tests"] - failed - count["skipped"], 0), failed, count["skipped"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", metavar="BUILD")
    parser.add_argument("--unit", metavar="BUILD")
    parser.add_argument("--shortened", metavar="BUILD")
    parser.add_argument("builds", nargs="+")
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    args, narrowed = parser.parse_args(arguments[:cut]), arguments[cut + 1:]
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
    began, passed, failed, skipped = time.monotonic(), 0, 0, 0
    try:
        if args.threads and not narrowed:
            passed, failed = thread_tests(args.threads)
        cluster = pg.Cluster(os.path.join(root, "pg")).start()
        if args.unit and not narrowed:
            p, f = unit_tests(args.unit, cluster)
            passed, failed = passed + p, failed + f
        for build in args.builds + ([args.shortened] if args.shortened else []):
            if not args.faults and not narrowed:
                p, f = unit_tests(build, cluster)
                passed, failed = passed + p, failed + f
            p, f, s = integration_tests(build, markers, narrowed, build == args.shortened and not narrowed)
            passed, failed, skipped = passed + p, failed + f, skipped + s
    finally:
        del os.environ["DEFERRED_TEST_ROOT"]
        pg.sweep(root)
    print(f"{time.monotonic() - began:.0f} s" + (f", {skipped} skipped" if skipped else "") +
          ("; the slow ones, and all of them under the sanitizers, are run by `make check WHOLE=1`" if quick else ""))
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
