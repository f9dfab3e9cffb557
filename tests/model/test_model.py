"""The models of the claim (claim_model.c), of keys (key_model.py), of events (event_model.py) and of
steps (step_model.py) keep their promises, and find each error that is made in them on purpose.

`build/tests/model/claim_model CONFIGURATION [--broken NAME]` is the same by hand, and prints the
way to a broken promise.
"""

import os

import pytest

import event_model
import harness
import key_model
import step_model

MODEL = os.path.join(harness.BUILD, "tests", "model", "claim_model")

# Each with a configuration that is large enough to show it, and what is to be said.
ERRORS = {
    "rows-early": ("small", "1: a job lies nowhere"),
    "lease-by-id": ("small", "1: a job lies in two"),
    "rest-by-id": ("hand", "1: a job lies in two"),
    "first-no-key": ("small", "2: a place went backward"),
    "first-unread": ("small", "1: a job lies in two"),
    "record-with-claim": ("small", "3: a job whose final outcome was accepted is ready again"),
    "record-unchecked": ("small", "3: an outcome was accepted without a lease"),
    "lost-by-id": ("small", "a job was taken from a live lease"),
    "lost-extended": ("extend", "a job was taken from a live lease"),
    "lost-locked": ("small", "1: a job lies nowhere"),
    "expired-deleted": ("small", "1: a job lies nowhere"),
    "repair-no-rest": ("repair", "repair touched a job that was not stranded"),
    "late-forgotten": ("small", "5: a claim, alone, found nothing"),
    "two-commits": ("small", "1: a job lies nowhere"),
    "one-lease-for-both": ("hand", "1: a job lies in two"),
}


def explore(*arguments):
    return harness.run([MODEL, *arguments], timeout=3000)


def test_every_error_of_the_model_is_tried():
    listed = [
        line.split()[1].rstrip(":") for line in explore("--list").stdout.splitlines() if line.startswith("broken ")
    ]
    assert sorted(listed) == sorted(ERRORS)


def test_nothing_is_broken_in_a_small_world():
    done = explore("small")
    print(done.stdout)
    assert done.returncode == 0, done.stdout


@pytest.mark.long
@pytest.mark.parametrize("arguments", ["hand", "hand --sound cur-first", "repair", "extend", "three"])
def test_nothing_is_broken_in_any_order_of_steps(arguments):
    done = explore(*arguments.split())
    print(done.stdout)
    assert done.returncode == 0, done.stdout


@pytest.mark.long
def test_nothing_is_broken_soon_where_everything_can_happen():
    done = explore("all", "--states", "4000000")
    print(done.stdout)
    assert done.returncode in (0, 3), done.stdout


@pytest.mark.parametrize("error", sorted(ERRORS))
def test_an_error_is_found(error):
    configuration, promise = ERRORS[error]
    done = explore(configuration, "--broken", error)
    assert done.returncode == 1 and f": {promise}" in done.stdout, done.stdout


@pytest.mark.parametrize("kinds", list(key_model.worlds()), ids="-".join)
def test_one_job_holds_a_key(kinds):
    wrong, way = key_model.explore(kinds)
    assert wrong is None, "\n".join(map(str, way))


@pytest.mark.parametrize("error", sorted(key_model.ERRORS))
def test_an_error_about_keys_is_found(error):
    assert any(key_model.explore(kinds, error)[0] for kinds in key_model.worlds())


SMALL = [("kept", "wait"), ("sent", "wait"), ("kept", "limit"), ("sent", "limit")]


@pytest.mark.parametrize("kinds", SMALL, ids="-".join)
def test_an_event_reaches_a_job(kinds):
    wrong, way = event_model.explore(kinds)
    assert wrong is None, "\n".join(map(str, way))


@pytest.mark.long
@pytest.mark.parametrize("kinds", list(event_model.worlds()), ids="-".join)
def test_events_reach_jobs(kinds):
    test_an_event_reaches_a_job(kinds)


@pytest.mark.parametrize("error", sorted(event_model.ERRORS))
def test_an_error_about_events_is_found(error):
    assert any(event_model.explore(kinds, error)[0] for kinds in [*SMALL, ("kept", "wait", "wait")])


@pytest.mark.parametrize("troubles", list(step_model.worlds()), ids="-".join)
def test_saved_steps_are_kept_and_run_once(troubles):
    wrong, way = step_model.explore(troubles)
    assert wrong is None, "\n".join(map(str, way))


@pytest.mark.long
@pytest.mark.parametrize("troubles", list(step_model.worlds()), ids="-".join)
def test_saved_steps_are_kept_when_leases_end_again(troubles):
    wrong, way = step_model.explore(troubles, expire=2)
    assert wrong is None, "\n".join(map(str, way))


@pytest.mark.parametrize("error", sorted(step_model.ERRORS))
def test_an_error_about_steps_is_found(error):
    assert any(step_model.explore(troubles, error)[0] for troubles in step_model.worlds())
