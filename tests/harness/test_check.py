"""What the run of all tests says at its end."""

import os
import subprocess

import check
import pg


def test_a_test_that_passes_only_alone_is_counted_and_named(monkeypatch, tmp_path):
    seeds = {}

    def passes_alone(build, test, seed):
        seeds[test.rsplit("::")[-1]] = seed
        return test.endswith("test_fragile")

    monkeypatch.setattr(check, "passes_alone", passes_alone)
    (tmp_path / "tests").mkdir()
    tests = tmp_path / "test_it.py"
    tests.write_text(
        "def test_good(): pass\ndef test_fragile(): assert 0\n"
        "def test_bad():\n    print('DEFERRED_TEST_SEED=17 repeats this draw')\n    assert 0\n"
    )
    passed, failed, skipped, alone = check.integration_tests(str(tmp_path), "not long", [str(tests)])
    assert (passed, failed, skipped) == (2, 1, 0)
    assert seeds == {"test_fragile": None, "test_bad": "17"}  # the same draw fails again
    [named] = alone
    lines, bad = check.verdict(passed, 0, alone)
    assert lines[0].startswith("1 of them passed only alone") and named in lines[1] and named.endswith("::test_fragile")
    assert lines[-1] == "2 passed, 0 failed" and not bad


def test_more_than_three_such_tests_fail_the_run():
    assert check.verdict(10, 0, ["t"] * 3)[1] is False
    lines, bad = check.verdict(10, 0, ["t"] * 4)
    assert lines[-1] == "6 passed, 4 failed" and bad
    assert check.verdict(0, 0, []) == (["0 passed, 0 failed"], True)
    assert check.verdict(1, 1, []) == (["1 passed, 1 failed"], True)


def test_unit_tests_are_named_like_the_others_and_what_was_left_out_is_said():
    def checked(*arguments):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("DEFERRED_", "PYTEST_"))}
        done = subprocess.run(
            [check.PYTHON, "tests/harness/check.py", "build", "--", *arguments],
            cwd=pg.TOP,
            env=env,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout.splitlines()

    status, lines = checked("tests/lib/backoff_test.c", "tests/lib/error_test.c")
    assert status == 0 and lines[0].startswith("build: 2 unit test programs, ")
    assert lines[-2] == "no test of pytest was named, so none ran" and lines[-1].endswith(" passed, 0 failed")
    status, lines = checked("tests/harness/test_check.py", "-k", "more_than_three")
    assert status == 0 and lines[-2:] == ["no unit test was named, so none ran", "1 passed, 0 failed"]
    assert checked("tests/lib/nosuch_test.c")[0] == 1
