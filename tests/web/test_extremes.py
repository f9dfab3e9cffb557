"""Times and numbers at the end of what a type holds.

A producer who gives one that no reader can show is refused, in words of ours. Whatever is stored, all readers go on.
"""

import json
import random
import re

import psycopg2
import pytest

from harness import wait_for

TOO_LATE = "the statement was cancelled"  # on a busy machine: the command is run again
TIMES = [
    "infinity",
    "-infinity",
    "294276-12-31",
    "10000-01-01",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "0001-01-01 BC",
    "4713-01-01 BC",
    "1969-12-31",
    "9000-01-01",
    "now",
    "tomorrow",
    "epoch",
    "NaN",
    "allballs",
]
SPANS = [
    "0",
    "1ms",
    "5s",
    "1000d",
    "36525d",
    "36526d",
    "100000d",
    "999999999999",
    "104249991d",
    "9223372036854775807",
    "NaN",
    "infinity",
    "-1s",
    "100000000 years",
    "999999999999 weeks",
]
NUMBERS = [
    "0",
    "1",
    "-1",
    "32767",
    "32768",
    "-32768",
    "2147483647",
    "-2147483648",
    "999999999",
    "9223372036854775807",
    "1e308",
    "NaN",
    "Infinity",
    "1e-7",
    "0.001",
    "100",
]
TOO_MUCH = {
    "36526d",
    "100000d",
    "999999999999",
    "104249991d",
    "infinity",
    "294276-12-31",
    "10000-01-01",
    "0001-01-01 BC",
    "4713-01-01 BC",
}


def kinds(times="", spans="", numbers=""):
    return {
        name: values for names, values in ((times, TIMES), (spans, SPANS), (numbers, NUMBERS)) for name in names.split()
    }


OF_JOBS = kinds(
    "run_at expires_at",
    "delay expires timeout backoff_floor backoff_ceiling",
    "priority max_attempts backoff_exponent concurrency",
)
OF_COMMAND = kinds("run_at", "delay expires timeout", "priority max_attempts")
OF_QUEUES = kinds(
    "",
    "ttl visibility-timeout backoff-floor backoff-ceiling",
    "backoff-exponent max-attempts rate burst weight max-running max-length params-max-bytes max-dequeue",
)
OF_SCHEDULES = kinds("", "late jitter expires timeout backoff_floor backoff_ceiling", "priority max_attempts")
RAW = re.compile("(timestamp|interval|bigint|integer) out of range|cannot subtract|cannot convert|field value", re.I)
COMMANDS = [
    "ls",
    "ls --state done",
    "ls --state delayed",
    "ls --state dead",
    "ls --state ready",
    "why",
    "why --all",
    "status",
    "functions",
    "queue ls",
    "function ls",
    "schedule ls",
    "schedule show s",
    "rule ls",
    "flow ls",
    "simulate",
    "advise --within 2min",
    "doctor",
    "metrics",
    "fold",
    "alert",
    "alert --list",
    "spans",
    "top",
    "purge --older-than 1000d",
]
AS_JSON = ["ls", "status", "queue ls", "schedule ls", "doctor", "why"]
PAGES = [
    "/",
    "/queues",
    "/queues/default",
    "/queues/x",
    "/jobs",
    "/jobs?state=dead",
    "/jobs?state=ready",
    "/jobs?state=delayed",
    "/running",
    "/dead",
    "/functions",
    "/functions/noop",
    "/recurring",
    "/recurring/s",
    "/flows",
    "/workers",
    "/rules",
    "/accounts",
    "/tokens",
    "/audit",
    "/doctor",
]


def read_all(db, web):
    """The readers that fail, that tell an error of the server, or whose JSON no other program can read."""
    wrong = []
    ids = [str(id) for id, in db.sql("select id from deferred.__deferred order by id desc limit 6")]

    def ask(*args):
        done = wait_for(lambda: (lambda done: TOO_LATE not in done.stderr and done)(db.run(["deferred", *args])), 60)
        if done.returncode not in (0, 1, 2, 3) or RAW.search(done.stderr + done.stdout):
            wrong.append((args, done.returncode, done.stderr, RAW.findall(done.stdout)))
        return done.stdout

    for command in COMMANDS + [f"{verb} {id}" for id in ids for verb in ("show", "why", "graph")]:
        ask(*command.split())
    for command in AS_JSON + [f"show {id}" for id in ids]:
        json.loads(ask("--json", *command.split()), parse_constant=lambda name: wrong.append((command, name)))
    for path in PAGES + [f"/jobs/{id}" for id in ids]:
        path, _, query = path.partition("?")
        for form in "", ".json":
            status, _, text = web.patient(f"{path}{form}?{query}")
            if status not in (200, 404) or "Infinity" in text or "NaN" in text:
                wrong.append((path, form, status, text[-300:]))
    db.sql("select deferred.maintain()")
    return wrong


def refused(call, *args, **kw):
    """The words of a refusal; None if it is stored."""
    try:
        call(*args, **kw)
    except psycopg2.Error as e:
        assert e.pgcode[:2] in ("22", "53", "54") and not RAW.search(str(e)), str(e)
        return str(e)
    return None


def draw(rng, of, most=2):
    return {name: rng.choice(of[name]) for name in rng.sample(sorted(of), rng.randint(1, most))}


def command(db, *args):
    done = db.run(["deferred", *args])
    assert done.returncode in (0, 1, 64, 65) and not RAW.search(done.stderr), done


def put(db, rng):
    """Store a few of the things that a producer, or an operator, may store."""
    opts = draw(rng, OF_JOBS)
    if "concurrency" in opts:
        opts["concurrency_key"] = "k"
    job = {"fn": "noop", **opts}
    kind = rng.randrange(6)
    if kind == 0:
        refused(db.defer, "noop", queue=rng.choice(["default", "x"]), **opts)
    elif kind == 1:
        refused(db.sql, "select deferred.defer_many(%s::json)", json.dumps([job, {"fn": "noop", **draw(rng, OF_JOBS)}]))
    elif kind == 2:
        refused(
            db.sql,
            "select deferred.defer_flow(%s::json)",
            json.dumps({"jobs": [job], "then": [{"fn": "noop", **draw(rng, OF_JOBS)}]}),
        )
    elif kind == 3:
        refused(db.defer, "noop", after=[db.defer("noop", queue="parents")], **opts)
    elif kind == 4:
        command(db, "add", "noop", *(f"--{n.replace('_', '-')}={v}" for n, v in draw(rng, OF_COMMAND).items()))
    else:
        ((name, value),) = draw(rng, OF_QUEUES, 1).items()
        command(db, "queue", "set", "x", "--create", f"--{name}={value}{'/s' if name == 'rate' else ''}")
    refused(
        db.sql,
        "select deferred.schedule(%s, %s, 'noop', '{}', %s::json)",
        "s",
        rng.choice(["* * * * *", "@daily", *(f"every {span}" for span in SPANS)]),
        json.dumps(draw(rng, OF_SCHEDULES)),
    )
    refused(db.sql, "select deferred.schedule_next('s', 3, 'UTC', %s)", rng.choice(TIMES))
    refused(db.sql, "select deferred.schedule_backfill('s', %s, %s, true)", rng.choice(TIMES), rng.choice(TIMES))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_a_producer_draws_all_readers_go_on(db, web, seed):
    rng = random.Random(seed)
    db.sql("select deferred.schedule('s', '@daily', 'noop')")
    for _ in range(40):
        put(db, rng)
    assert read_all(db, web) == []
    assert db.run(["check_deferred"]).returncode == 0
    assert read_all(db, web) == []


@pytest.mark.parametrize("name", kinds("run_at expires_at", "delay expires timeout backoff_floor backoff_ceiling"))
def test_the_same_is_refused_whichever_way_it_comes(db, name):
    for value in OF_JOBS[name]:
        one = refused(db.defer, "noop", **{name: value})
        many = refused(
            db.sql, "select deferred.defer_many(%s::json)", json.dumps([{"fn": "noop", name: value}, {"fn": "noop"}])
        )
        assert (one is None) == (many is None), (value, one, many)
        assert value not in TOO_MUCH or (name in one and name in many), (value, one, many)
    assert (
        db.sql(
            """select id from deferred.__deferred
                     where not deferred.__time_ok(run_at) or not deferred.__time_ok(expires_at)"""
        )
        == []
    )


@pytest.mark.by_hand
@pytest.mark.parametrize("at", ["infinity", "-infinity", "294276-12-31", "4713-01-01 BC"])
def test_rows_that_hold_such_times_are_read_nevertheless(db, web, at):
    """Rows of a dump, or written by hand: nothing that defers stores them, and most columns refuse them."""
    db.sql("alter domain deferred.__moment drop constraint __moment_check")
    db.sql("select deferred.schedule('s', '@daily', 'noop')")
    db.sql("select deferred.defer_flow('{\"jobs\": [{\"fn\": \"noop\"}], \"then\": [{\"fn\": \"noop\"}]}')")
    jobs = [db.defer("noop", queue=queue) for queue in ("default", "x") for _ in range(3)]
    held = db.defer("noop", queue="held")
    db.hold(held)
    message = db.one("select deferred.defer(null, '{}', queue => 'messages')")
    db.sql(
        """update deferred.__deferred_hot set due_at = %(at)s, visible_at = %(at)s
              where id = %(message)s or (id = any (%(jobs)s) and queue = 'x');
              update deferred.__deferred_hot set expires_at = %(at)s where id = %(message)s or id = any (%(jobs)s);
              update deferred.__deferred set run_at = %(at)s, expires_at = %(at)s where id = any (%(jobs)s);
              update deferred.__deferred_lease set expires_at = %(at)s;
              update deferred.__deferred_schedule set last_at = %(at)s, queued_at = %(at)s, next_at = %(at)s""",
        {"at": at, "jobs": jobs, "message": message},
    )
    assert read_all(db, web) == []
    done = db.run(["check_deferred"])
    assert done.returncode == 0 and not RAW.search(done.stderr + done.stdout)
    assert read_all(db, web) == [] and db.sql("select count(*) from deferred.claim('messages')")
