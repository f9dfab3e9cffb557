"""Queues with settings and limits: the commands, and what several check_deferred processes do under limits."""

import json
import os
import pty
import re
import signal
import threading
import time

import pytest

from harness import SAN, ledger, wait_for

OK, NOT_DONE, USAGE, DATA = 0, 1, 64, 65


def ok(result):
    assert (result.returncode, result.stderr) == (OK, ""), result
    return result.stdout


def fails(result, code, *texts):
    assert result.returncode == code, result
    assert result.stderr.startswith("deferred: ")
    for text in texts:
        assert text in result.stderr
    assert result.stdout == ""


def queue(db, *args):
    return ok(db.run(["deferred", "queue", *args]))


def setting(db, column, name="q"):
    return db.one(f"select {column} from deferred.__deferred_queue where name = %s", name)


def many(db, n, fn="noop", params=None, **opts):
    return [
        r[0]
        for r in db.sql(
            "select deferred.defer_many(%s::json)", json.dumps([{"fn": fn, "params": params or {}, **opts}] * n)
        )
    ]


class Fleet:
    """Processes of check_deferred, each started again when it has found nothing to do, until stop()."""

    def __init__(self, db, n, *args):
        self.stopping = False
        self.said = []
        self.threads = [threading.Thread(target=self.keep, args=(db, i, args)) for i in range(n)]
        for t in self.threads:
            t.start()

    def keep(self, db, i, args):
        while not self.stopping:
            done = db.run(["check_deferred", "--cnt", "0", "--pidfile", f"{db.dir}/pid{i}", *args])
            self.said.append((done.returncode, done.stderr))
            time.sleep(0.01)

    def stop(self):
        self.stopping = True
        for t in self.threads:
            t.join(60)
        assert {code for code, _ in self.said} == {0}, self.said
        return self


def drain(db, n, *args, timeout=120):
    fleet = Fleet(db, n, *args)
    try:
        wait_for(lambda: db.hot() == 0, timeout, "all jobs have ended")
    finally:
        fleet.stop()
    ledger(db)


def attempts(db, where="true"):
    """(job, start, end) of the attempts that were made, in seconds, in the order of their starts."""
    return db.sql(
        "select l.job_id, extract(epoch from l.started_at)::float8, extract(epoch from l.finished_at)::float8 "
        f"from deferred.__deferred_log l join deferred.__deferred d on d.id = l.job_id where l.attempt > 0 and "
        f"{where} order by 2"
    )


def most_at_once(made):
    events = sorted([(s, 1) for _, s, _ in made] + [(e, -1) for _, _, e in made])
    now = most = 0
    for _, step in events:
        now += step
        most = max(most, now)
    return most


def note_grants(db):
    """Note when jobs of a rate are claimed. On a busy machine jobs start later than that, several at a time."""
    db.sql(
        """
        create table public.granted (at timestamptz, jobs int, key text);
        create function public.grant_noted() returns trigger language plpgsql security definer as $$
        begin
            insert into public.granted
            values (new.tokens_at, cardinality(array(select unnest(new.running) except select unnest(old.running))),
                    case when new.kind = 'key' then new.name else '' end);
            return new;
        end $$;
        create trigger grant_noted after insert or update on deferred.__deferred_limit for each row
        execute function public.grant_noted()"""
    )


def granted(db, key=""):
    """The times of note_grants(), one for each job; of a key by its hash."""
    return [
        at
        for (at,) in db.sql(
            "select extract(epoch from at)::float8 from public.granted, generate_series(1, jobs) where key = %s"
            " order by 1",
            key,
        )
    ]


def worst_excess(starts, rate, burst):
    """Over all windows that begin and end with a start: starts above burst + rate * length."""
    return max(
        j - i + 1 - burst - rate * (starts[j] - starts[i]) for i in range(len(starts)) for j in range(i, len(starts))
    )


def test_the_measures_of_this_file_see_what_they_should():
    assert most_at_once([(1, 0, 2), (2, 1, 3), (3, 2, 4)]) == 2
    assert most_at_once([(1, 0, 9), (2, 1, 3), (3, 2, 4)]) == 3
    assert worst_excess([i / 10 for i in range(50)], 10, 1) == pytest.approx(0)
    assert worst_excess([i / 11 for i in range(50)], 10, 1) > 4


# ---- several processes


def test_four_processes_keep_to_the_limit_of_a_queue(db):
    queue(db, "set", "q", "--create", "--max-running", "3")
    many(db, 60, "sleep", {"ms": 30}, queue="q")
    free = many(db, 30, "sleep", {"ms": 5})
    drain(db, 4, "--runners", "4")
    assert most_at_once(attempts(db, "d.queue = 'q'")) == 3
    assert len(attempts(db)) == 90 and len(free) == 30


@pytest.mark.parametrize("rate,burst,jobs", [("10/s", 1, 35), ("5/s", 5, 30), ("480/min", 3, 40)])
def test_a_rate_is_exceeded_in_no_window_by_four_processes(db, rate, burst, jobs):
    """The model check of the rule: in any window at most burst + rate * its length, and one."""
    a_second = {"s": 1, "min": 1 / 60}[rate.split("/")[1]] * float(rate.split("/")[0])
    queue(db, "set", "q", "--create", "--rate", rate, "--burst", burst)
    many(db, jobs, queue="q")
    many(db, 200)
    note_grants(db)
    drain(db, 4, "--runners", "2")
    made = attempts(db, "d.queue = 'q'")
    assert len(made) == jobs <= len(granted(db))
    assert worst_excess(granted(db), a_second, burst) <= 1
    assert made[-1][1] - made[0][1] < (20 if SAN else 3) * jobs / a_second + 5  # and it is used


@pytest.mark.parametrize("rate,burst", [("10/s", 1), ("5/s", 4)])
def test_a_key_rate_is_exceeded_in_no_window_of_a_key_by_processes_that_come_and_go(db, rate, burst):
    queue(db, "set", "tenant.*", "--key-rate", rate, "--key-burst", burst)
    for key in "abc":
        many(db, 15, queue="tenant.1", concurrency_key=key)
    many(db, 200)
    note_grants(db)
    drain(db, 4, "--runners", "2")
    keys = [key for (key,) in db.sql("select distinct key from public.granted where key <> '' and jobs > 0")]
    assert len(keys) == 3
    for key in keys:
        assert len(granted(db, key)) == 15 and worst_excess(granted(db, key), float(rate[:-2]), burst) <= 1


def test_why_names_the_rate_of_a_key(db):
    queue(db, "set", "q", "--create", "--key-rate", "1/h")
    jobs = many(db, 2, queue="q", concurrency_key="k")
    assert db.run(["check_deferred", "--cnt", "1"]).returncode == OK
    said = ok(db.run(["deferred", "why", str(jobs[1])]))
    assert "queue q starts no more than 1/h of each concurrency key" in said
    assert "deferred queue set q --key-rate 2/h" in said
    refused = db.run(["deferred", "queue", "set", "default", "--key-burst", "3"])
    fails(refused, DATA, "a key_burst of 3 but no key_rate", "hint: ")


def test_a_run_without_end_waits_for_the_rate_and_serves_others_meanwhile(db):
    queue(db, "set", "q", "--create", "--rate", "2/s")
    jobs = many(db, 5, queue="q")
    note_grants(db)
    run = db.spawn(["check_deferred", "--cnt", "0"])
    wait_for(lambda: len(attempts(db)) == 2, 20, "it is waiting")
    other = db.defer("noop")
    wait_for(lambda: db.log(other) == [(1, "ok")], 20, "another job is run")
    assert run.wait(30) == 0 and db.hot() == 0 and len(attempts(db)) == 6
    made = [a for a in attempts(db) if a[0] in jobs]
    assert len(granted(db)) == 5 and worst_excess(granted(db), 2, 1) <= 1 and made[-1][1] - made[0][1] < 10
    many(db, 3, queue="q")
    assert db.run(["check_deferred"]).returncode == 0  # a run of one attempt does not wait
    queue(db, "set", "q", "--rate", "1/h")
    db.sql("update deferred.__deferred_limit set tokens = 0")  # what is left of the old rate may be all but a whole one
    began = time.monotonic()
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0  # nor does one for an hour
    assert time.monotonic() - began < 10 and db.hot() > 0


def test_an_idle_wait_for_a_rate_uses_no_processor(db):
    queue(db, "set", "q", "--create", "--rate", "1/min")
    many(db, 3, queue="q")
    run = db.spawn(["check_deferred", "--cnt", "0"])
    wait_for(lambda: len(attempts(db)) == 1, 20, "the first was run")

    def ticks():
        with open(f"/proc/{run.pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(4)
    assert run.alive() and ticks() - before <= (20 if SAN else 4)  # of 400
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    ledger(db)


def test_the_limits_of_a_function_hold_in_all_queues(db):
    """At a rate that is exact: above 20 a second a start may be late by more than the time of one job, deferred(1)."""
    ok(db.run(["deferred", "function", "set", "sleep", "--max-running", "2", "--rate", "10/s", "--burst", "4"]))
    for q in ("a", "b"):
        many(db, 16, "sleep", {"ms": 150}, queue=q)  # longer than the pause between two starts
        many(db, 20, "noop", queue=q)
    note_grants(db)
    drain(db, 4, "--runners", "3")
    made = attempts(db, "d.fn = 'sleep'")
    assert len(granted(db)) >= 32 and worst_excess(granted(db), 10, 4) <= 1
    assert most_at_once(made) == 2
    assert len(made) == 32 and len(attempts(db)) == 72


def test_a_key_is_strictly_in_order_also_when_jobs_fail(db):
    db.config('backoff_floor = "30ms"\nbackoff_ceiling = "60ms"\nmax_attempts = 3\n')
    keys = {k: [] for k in ("red", "green", "blue")}
    for i in range(8):
        for k, jobs in keys.items():
            fn = "fail" if i % 3 == 1 else "sleep"
            jobs.append(db.defer(fn, '{"ms": 30}', concurrency_key=k, priority=i))  # priority does not change the order
    drain(db, 4, "--runners", "3")
    made = attempts(db)
    assert len(made) == 3 * (5 + 3 * 3)
    for jobs in keys.values():
        mine = [a for a in made if a[0] in jobs]
        assert most_at_once(mine) == 1
        order = [a[0] for a in mine]
        assert order == sorted(order), "an attempt was made before an older job had ended"
    assert most_at_once(made) > 1  # different keys do run at once


def read_turns(path, key_of, attempts_max):
    """The jobs that the functions turn and turn_together have run, in the order in which they ended. Fails if two jobs
    of a key ran at once, or one ran before an older one had ended."""
    ended, running, failed = [], {}, {}
    with open(path) as f:
        for line in f:
            what, job = line.split()
            job, key = int(job), key_of[int(job)]
            if what == "begin":
                assert key not in running, f"jobs {running.get(key)} and {job} of a key run at once"
                running[key] = job
                continue
            assert running.pop(key) == job
            failed[job] = failed.get(job, 0) + (what == "failed")
            if what == "end" or failed[job] == attempts_max:
                ended.append(job)
    assert not running
    for key in set(key_of.values()):
        order = [job for job in ended if key_of[job] == key]
        assert order == sorted(order), "a job ran before an older one of its key"
    return ended


def defer_turns(db, path, fns, keys, fail=()):
    """A job for each of the functions, with keys in turns; their ids in order, and the key of each."""
    ids = db.sql(
        "select j.id from unnest(%s::text[], %s::text[]) with ordinality p(fn, params, n) cross join lateral"
        " deferred.defer(p.fn, p.params::json, json_build_object('concurrency_key', 'key ' || p.n %% %s)) j(id)"
        " order by p.n",
        fns,
        [json.dumps({"file": path, "fail": i in fail}) for i in range(len(fns))],
        keys,
    )
    return [job for (job,) in ids], {job: i % keys for i, (job,) in enumerate(ids)}


def most_together(db):
    """The most jobs of one key that a claim took and that succeeded."""
    return db.sql(
        "select max(n) from (select count(*) as n from deferred.__deferred_log l join deferred.__deferred d"
        " on d.id = l.job_id where l.outcome = 'ok' group by l.receipt, d.concurrency_key) x"
    )[0][0]


@pytest.mark.parametrize("fns", [["turn"], ["turn_together"], ["turn", "turn_together"]], ids="-".join)
def test_short_jobs_of_a_key_are_claimed_together_and_stay_in_order_also_when_jobs_fail(db, rng, fns):
    """A claim takes several jobs of a key. When one of them fails, the jobs behind it are given back."""
    db.plugins("running")
    db.config('backoff_floor = "1ms"\nbackoff_ceiling = "30ms"\nmax_attempts = 2\n')
    path, count = f"{db.dir}/turns", 1500
    fail = {i for i in range(count) if rng.random() < 0.02}
    jobs, key_of = defer_turns(db, path, [rng.choice(fns) for _ in range(count)], 30, fail)
    drain(db, 2, "--runners", "3")
    assert sorted(read_turns(path, key_of, 2)) == jobs
    assert most_together(db) > 1


def test_jobs_behind_one_of_an_unknown_function_wait_though_they_were_claimed_with_it(db):
    db.plugins("running")
    path, keys = f"{db.dir}/turns", 10
    fns = ["turn"] * 1500
    fns[1000 : 1000 + keys] = ["nosuch"] * keys
    jobs, key_of = defer_turns(db, path, fns, keys)
    assert db.run(["check_deferred", "--cnt", "0", "--runners", "3"]).returncode == 0
    assert sorted(read_turns(path, key_of, 1)) == jobs[:1000]
    assert most_together(db) > 1
    assert db.hot() == 500
    ledger(db)


@pytest.mark.slow
def test_a_key_with_a_number_runs_that_many(db):
    for i in range(24):
        assert (
            db.run(
                ["deferred", "add", "sleep", '{"ms": 40}', "--concurrency-key", "k", "--concurrency", "3"]
            ).returncode
            == 0
        )
    drain(db, 4, "--runners", "3")
    assert most_at_once(attempts(db)) == 3


@pytest.mark.parametrize("limit", ["queue", "function", "key", "rate"])
def test_a_killed_holder_keeps_others_waiting_no_longer_than_its_lease(db, limit):
    db.config('backoff_floor = "1ms"\nbackoff_ceiling = "1ms"\n')
    queue(
        db,
        "set",
        "q",
        "--create",
        "--visibility-timeout",
        "2s",
        *(["--max-running", "1"] if limit == "queue" else []),
        *(["--rate", "1000/s"] if limit == "rate" else []),
    )
    if limit == "function":
        ok(db.run(["deferred", "function", "set", "sleep", "--max-running", "1"]))
    opts = {"concurrency_key": "k"} if limit == "key" else {}
    held = db.defer("sleep", '{"ms": 60000}', queue="q", max_attempts=1, **opts)
    holder = db.spawn(["check_deferred", "--cnt", "0", "--pidfile", f"{db.dir}/holder"])
    wait_for(lambda: db.sql("select 1 from deferred.__held"), 20, "the holder has the job")
    after = db.defer("sleep", '{"ms": 1}', queue="q", **opts)
    if limit != "rate":
        assert db.run(["check_deferred", "--cnt", "0", "--pidfile", f"{db.dir}/other"]).returncode == 0
        assert db.log(after) == []  # it must wait
    wait_for(db.orphans, 20, "the runner is there")
    time.sleep(0.7)  # a renewal has been made
    holder.signal(signal.SIGKILL)
    killed = time.monotonic()
    fleet = Fleet(db, 3)
    try:
        wait_for(lambda: db.log(after) == [(1, "ok")], 30, "the next job was run")
        waited = time.monotonic() - killed
        wait_for(lambda: db.log(held) == [(1, "lost")], 20, "the lease of the held one ended")
    finally:
        fleet.stop()
    assert waited < 2 + 8  # a lease is a minute where a queue does not say
    ledger(db)


@pytest.mark.slow
def test_limits_changed_and_queues_paused_while_jobs_run(db):
    queue(db, "set", "q", "--create", "--max-running", "6")
    many(db, 400, "sleep", {"ms": 25}, queue="q")
    fleet = Fleet(db, 2, "--runners", "4")
    now = "select extract(epoch from clock_timestamp())::float8"
    try:
        wait_for(lambda: len(attempts(db)) > 30, 60, "work is going on")
        queue(db, "set", "q", "--max-running", "1")
        changed = db.one(now)
        wait_for(lambda: len([a for a in attempts(db) if a[1] > changed + 1]) > 5, 60, "it goes on more slowly")
        queue(db, "pause", "q")
        paused = db.one(now)
        time.sleep(2)
        n = len(attempts(db))
        time.sleep(1)
        assert len(attempts(db)) == n
        queue(db, "resume", "q")
        queue(db, "set", "q", "--unset", "max-running")
        resumed = db.one(now)
        wait_for(lambda: db.hot() == 0, 100, "all jobs have ended")
    finally:
        fleet.stop()
    made = attempts(db)
    assert most_at_once([a for a in made if a[1] < changed]) >= 4
    assert most_at_once([a for a in made if changed + 0.5 < a[1] < paused]) == 1
    assert not [a for a in made if paused + 0.5 < a[1] < resumed - 0.5]
    assert most_at_once([a for a in made if a[1] > resumed]) > 2
    assert len(made) == 400
    ledger(db)


def test_a_job_longer_than_the_lease_of_its_queue_is_run_once(db):
    queue(db, "set", "q", "--create", "--visibility-timeout", "1s")
    queue(db, "set", "l", "--create", "--visibility-timeout", "1s", "--max-running", "2")
    jobs = [db.defer("sleep", '{"ms": 3500}', queue=q) for q in ("q", "l")]
    drain(db, 2, "--runners", "2")
    assert [db.log(j) for j in jobs] == [[(1, "ok")]] * 2


@pytest.mark.slow
def test_a_lease_of_a_queue_is_renewed_beside_longer_ones(db):
    """Which are renewed seldom: the next time would be long after its end."""
    queue(db, "set", "q", "--create", "--visibility-timeout", "1s")
    run = db.spawn(["check_deferred", "--loop", "--runners", "2", "--lease", "1h"])
    long = db.defer("sleep", '{"ms": 9000}')
    end = "select l.expires_at - l.claimed_at from deferred.__deferred_lease l where %s = any (l.ids)"
    wait_for(lambda: db.sql(end, long))
    first = db.one(end, long)
    wait_for(lambda: db.one(end, long) > first, 20, "it is renewed")
    short = db.defer("sleep", '{"ms": 3000}', queue="q")
    wait_for(lambda: db.hot() == 0, 20)
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    assert db.log(short) == db.log(long) == [(1, "ok")], run.output()
    ledger(db)


def test_weights_share_a_worker(db):
    queue(db, "set", "a", "--create", "--weight", "1")
    queue(db, "set", "b", "--create", "--weight", "3")
    queue(db, "set", "c", "--create", "--weight", "1", "--max-running", "100")
    for q in "abc":
        many(db, 900, queue=q)
    assert db.run(["check_deferred", "--cnt", "600", "--batch", "2"]).returncode == 0
    got = dict(
        db.sql(
            "select d.queue, count(*) from deferred.__deferred_log l join deferred.__deferred d on d.id = l.job_id "
            "group by 1"
        )
    )
    # Drawn, 300 times: about 75 of a and 225 of b. Outside of this once in some thousand times.
    assert sum(got.values()) == 600 and 1.6 < got["b"] / got["a"] < 6 and got["c"] > 60


def test_a_run_of_one_attempt_serves_limited_and_other_queues(db):
    queue(db, "set", "q", "--create", "--max-running", "5")
    many(db, 10, queue="q")
    many(db, 10)
    for _ in range(16):
        assert db.run(["check_deferred"]).returncode == 0
    assert len(attempts(db)) == 16
    assert 0 < len(attempts(db, "d.queue = 'q'")) and 0 < len(attempts(db, "d.queue <> 'q'"))


def test_defaults_of_the_queue_decide_when_a_job_is_dead(db):
    queue(db, "set", "q", "--create", "--max-attempts", "2", "--backoff-floor", "1ms", "--backoff-ceiling", "1ms")
    job, own = db.defer("fail", queue="q"), db.defer("fail", queue="q", max_attempts=3)
    drain(db, 1)
    assert len(db.log(job)) == 2 and len(db.log(own)) == 3


def test_messages_to_a_bound_queue_are_run(db):
    queue(db, "set", "inbox", "--create", "--function", "echo")
    job = db.one("select deferred.defer(null, '{\"n\": 1}', '{\"queue\": \"inbox\"}')")
    drain(db, 1)
    assert db.sql("select result from deferred.__deferred_log where job_id = %s", job) == [('{"n": 1}',)]


# ---- the commands


def test_every_setting_is_set_shown_and_taken_back(db):
    options = {
        "visibility-timeout": ("30s", "visibility_timeout_ms", 30000),
        "ttl": ("2d", "ttl_ms", 172800000),
        "max-attempts": ("7", "max_attempts", 7),
        "backoff-floor": ("200ms", "backoff_floor_ms", 200),
        "backoff-ceiling": ("1.5h", "backoff_ceiling_ms", 5400000),
        "backoff-exponent": ("1.5", "backoff_exponent", 1.5),
        "max-running": ("10", "max_running", 10),
        "rate": ("1/min", "rate", 1 / 60),
        "burst": ("5", "burst", 5),
        "max-length": ("1000", "max_length", 1000),
        "on-full": ("drop", "on_full", "drop"),
        "function": ("send_mail", "fn", "send_mail"),
        "metadata": ('{"owner": "me"}', "metadata", {"owner": "me"}),
        "weight": ("3", "weight", 3.0),
        "params-max-bytes": ("2000", "params_max_bytes", 2000),
        "on-dead": ("mourn", "on_dead", "mourn"),
        "age": ("10min", "age_ms", 600000),
        "key-rate": ("5/s", "key_rate", 5.0),
        "key-burst": ("20", "key_burst", 20),
    }
    args = [a for name, (value, _, _) in options.items() for a in ("--" + name, value)]
    assert queue(db, "set", "q", "--create", *args) == ""
    (shown,) = json.loads(queue(db, "ls", "q", "--json"))
    for _, column, expected in options.values():
        assert shown[column] == pytest.approx(expected) if isinstance(expected, float) else shown[column] == expected
    assert shown["running"] == 0 and shown["paused"] is False
    line = queue(db, "ls").splitlines()[2]
    assert (
        line.split()
        == 'q 0 of 10 1/min burst 5 1000 drop 30s 2d 7 3 send_mail 200ms 90min 1.5 2000 {"owner": "me"}'.split()
        + ["mourn", "10min", "5/s", "burst", "20"]
    )
    plain = db.sql(
        "select to_jsonb(q) - array['name', 'created_at'] from deferred.__deferred_queue q where name = 'default'"
    )
    for i, name in enumerate(options):
        if name in ("burst", "key-burst"):
            continue  # goes first: it needs the rate
        if name in ("rate", "key-rate"):
            queue(db, "set", "q", "--" + name.replace("rate", "burst"), "", "--" + name, "")
        elif i % 2:
            queue(db, "set", "q", "--unset", name)
        else:
            queue(db, "set", "q", "--" + name, "")
    assert (
        db.sql("select to_jsonb(q) - array['name', 'created_at'] from deferred.__deferred_queue q where name = 'q'")
        == plain
    )


NONSENSE = [
    ("visibility-timeout", "30", "not a time span with a unit"),
    ("visibility-timeout", "-5s", "-5s"),
    ("visibility-timeout", "500ms", "500ms"),
    ("visibility-timeout", "2d", "2d"),
    ("visibility-timeout", "nan", "nan"),
    ("ttl", "5", "'5'"),
    ("ttl", "0s", "0s"),
    ("ttl", "inf", "inf"),
    ("max-attempts", "0", "'0'"),
    ("max-attempts", "-1", "-1"),
    ("max-attempts", "1.5", "1.5"),
    ("max-attempts", "nan", "nan"),
    ("backoff-floor", "10", "'10'"),
    ("backoff-floor", "0ms", "0ms"),
    ("backoff-ceiling", "1 mon", "1 mon"),
    ("backoff-exponent", "0.5", "0.5"),
    ("backoff-exponent", "nan", "nan"),
    ("backoff-exponent", "-2", "-2"),
    ("max-running", "0", "'0'"),
    ("max-running", "-3", "-3"),
    ("max-running", "many", "many"),
    ("max-running", "1e3", "1e3"),
    ("rate", "5", "'5'"),
    ("rate", "1/", "'1/'"),
    ("rate", "1/fortnight", "fortnight"),
    ("rate", "-1/s", "-1/s"),
    ("rate", "nan/s", "nan/s"),
    ("rate", "inf/s", "inf/s"),
    ("rate", "0/s", "0/s"),
    ("rate", "1/0s", "1/0s"),
    ("rate", "1/5", "1/5"),
    ("rate", "/s", "/s"),
    ("rate", "9999999/s", "9999999/s"),
    ("burst", "0", "'0'"),
    ("burst", "-1", "-1"),
    ("max-length", "0", "'0'"),
    ("max-length", "-1", "-1"),
    ("max-length", "1k", "1k"),
    ("on-full", "explode", "explode"),
    ("on-full", "err", "err"),
    ("weight", "0", "'0'"),
    ("weight", "-1", "-1"),
    ("weight", "nan", "nan"),
    ("weight", "1001", "1001"),
    ("metadata", "{", "{"),
    ("age", "900ms", "900ms"),
    ("age", "10", "'10'"),
    ("params-max-bytes", "0", "'0'"),
    ("params-max-bytes", "-1", "-1"),
]


@pytest.mark.parametrize("option,value,says", NONSENSE)
def test_nonsense_is_refused_before_anything_is_touched(run, option, value, says):
    result = run(["deferred", "queue", "set", "q", f"--{option}={value}"], env={"DEFERRED_DB": "host=/nonexistent"})
    assert result.returncode == USAGE and result.stdout == ""
    assert (
        f"option '--{option}': value '{value}'" in result.stderr
        and says in result.stderr
        and re.search(r"\nhint: .+\n$", result.stderr)
    )
    if option in ("max-running", "rate", "burst"):
        result = run(
            ["deferred", "function", "set", "f", f"--{option}={value}"], env={"DEFERRED_DB": "host=/nonexistent"}
        )
        assert result.returncode == USAGE and f"option '--{option}': value '{value}'" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["queue"],
        ["queue", "frobnicate"],
        ["queue", "set"],
        ["queue", "set", "q"],
        ["queue", "set", "q", "r", "--weight", "2"],
        ["queue", "pause"],
        ["queue", "ls", "a", "b"],
        ["queue", "rm"],
        ["queue", "clear"],
        ["queue", "set", "no such", "--weight", "2"],
        ["queue", "pause", "ok", "-x"],
        ["queue", "pause", ""],
        ["queue", "clear", "q", "--force"],
        ["queue", "ls", "--yes"],
        ["queue", "pause", "q", "--create"],
        ["queue", "pause", "q", "--rate", "1/s"],
        ["queue", "set", "q", "--unset", "colour"],
        ["queue", "set", "a" * 89, "--weight", "2"],
        ["function"],
        ["function", "set"],
        ["function", "set", "f"],
        ["function", "ls", "--rate", "1/s"],
        ["function", "rm"],
        ["function", "set", "f", "--weight", "1"],
        ["function", "set", "f", "--unset", "weight"],
        ["function", "pause", "f"],
        ["add", "noop", "--concurrency", "0"],
        ["add", "noop", "--concurrency", "x"],
        ["add", "noop", "--concurrency", "10001"],
    ],
)
def test_wrong_usage_ends_with_64(run, args):
    result = run(["deferred", *args], env={"DEFERRED_DB": "host=/nonexistent"})
    assert result.returncode == USAGE and result.stdout == "" and re.search(r"\nhint: .+\n$", result.stderr)


def test_what_only_the_server_can_refuse_quotes_the_input(db):
    for args in (
        ["set", "nosuch", "--weight", "2"],
        ["pause", "nosuch"],
        ["resume", "nosuch"],
        ["clear", "nosuch", "--yes"],
        ["rm", "nosuch"],
        ["ls", "nosuch"],
    ):
        fails(db.run(["deferred", "queue", *args]), NOT_DONE, "queue 'nosuch' does not exist", "hint: ")
    assert db.sql("select name from deferred.__deferred_queue") == [("default",)]
    fails(db.run(["deferred", "queue", "set", "default", "--burst", "3"]), DATA, "a burst of 3 but no rate", "hint: ")
    fails(db.run(["deferred", "queue", "set", "default", "--function", "no such"]), DATA, "no such", "hint: ")
    fails(
        db.run(["deferred", "queue", "set", "default", "--backoff-floor", "2h", "--backoff-ceiling", "1h"]),
        DATA,
        "7200000",
    )
    fails(db.run(["deferred", "function", "set", "no such", "--rate", "1/s"]), DATA, "'no such'", "hint: ")
    fails(db.run(["deferred", "function", "set", "f", "--burst", "2"]), DATA, "a burst of 2 but no rate")
    fails(db.run(["deferred", "function", "rm", "f"]), NOT_DONE, "'f' has no limits")
    fails(db.run(["deferred", "queue", "rm", "default"]), NOT_DONE, "'default' cannot be removed")
    fails(
        db.run(["deferred", "add", "noop", "--concurrency", "2"]),
        DATA,
        "'concurrency' is 2, but 'concurrency_key' is missing",
    )
    # A name that is refused leaves those before it alone.
    queue(db, "set", "q", "--create")
    fails(db.run(["deferred", "queue", "pause", "q", "nosuch"]), NOT_DONE, "nosuch")
    assert setting(db, "paused") is False


def test_all_queues_are_paused_and_resumed(db):
    """A pause until a time becomes one without an end. A paused queue keeps the name of who paused it."""
    for name in ("a", "b", "c", "gone"):
        queue(db, "set", name, "--create")
    queue(db, "rm", "gone")
    queue(db, "pause", "b")
    since = setting(db, "paused_at", "b")
    queue(db, "set", "c", "--paused-until", db.one("select (now() + interval '1 h')::text"))
    assert queue(db, "pause", "--all") == "a paused\nc paused\ndefault paused\n"
    left = "select name, paused, paused_until from deferred.__deferred_queue where removed_at is null order by name"
    assert db.sql(left) == [(name, True, None) for name in ("a", "b", "c", "default")]
    assert setting(db, "paused_at", "b") == since
    job = db.defer("noop")
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.log(job) == []
    assert queue(db, "pause", "--all") == "" and queue(db, "pause", "--all", "--json") == "[]\n"
    assert queue(db, "resume", "--all") == "a resumed\nb resumed\nc resumed\ndefault resumed\n"
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.log(job) == [(1, "ok")]
    assert db.one("select count(*) from deferred.__action where verb = 'resume'") == 4
    fails(db.run(["deferred", "queue", "pause", "a", "--all"]), USAGE, "queue 'a' contradicts option '--all'")


def test_a_pause_ends_at_its_time(db):
    queue(db, "set", "q", "--create", "--paused-until", db.one("select (now() + interval '1 h')::text"))
    assert "until 2" in queue(db, "ls", "q")
    assert json.loads(queue(db, "ls", "q", "--json"))[0]["paused_until"]
    job = db.defer("noop", queue="q")
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.log(job) == []
    db.sql("update deferred.__deferred_queue set paused_until = now() - interval '1 s' where name = 'q'")
    assert json.loads(queue(db, "ls", "q", "--json"))[0]["paused"] is False
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.log(job) == [(1, "ok")]
    # Another pause does not inherit the end of that one, whether it has come or not, and resume removes an end.
    queue(db, "pause", "q")
    assert (setting(db, "paused"), setting(db, "paused_until")) == (True, None)
    queue(db, "set", "q", "--paused-until", "tomorrow")
    queue(db, "pause", "q")
    assert (setting(db, "paused"), setting(db, "paused_until")) == (True, None)
    queue(db, "set", "q", "--paused-until", "tomorrow")
    db.sql("update deferred.__deferred_queue set paused_until = now() - interval '1 s' where name = 'q'")
    queue(db, "set", "q", "--weight", "2")
    assert (setting(db, "paused"), setting(db, "paused_until")) == (False, None)
    queue(db, "set", "q", "--paused-until", "tomorrow")
    queue(db, "resume", "q")
    assert (setting(db, "paused"), setting(db, "paused_until")) == (False, None)
    for wrong, what in (("frog", "is not a time"), ("2001-01-01", "cannot end at"), ("infinity", "cannot end at")):
        fails(db.run(["deferred", "queue", "set", "q", "--paused-until", wrong]), DATA, what)


def test_pause_and_resume_say_what_they_did(db):
    for q in "qr":
        queue(db, "set", q, "--create")
    assert queue(db, "pause", "q", "r") == "q paused\nr paused\n"
    assert setting(db, "paused") is True
    assert "paused" in queue(db, "ls", "q")
    job = db.defer("noop", queue="q")
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.log(job) == []
    assert json.loads(queue(db, "resume", "q", "r", "--json")) == [
        {"queue": "q", "paused": False},
        {"queue": "r", "paused": False},
    ]
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.log(job) == [(1, "ok")]


@pytest.mark.parametrize(
    "rate, shown",
    [
        ("100/h", "100/h"),
        ("5/s", "5/s"),
        ("1/min", "1/min"),
        ("3/10s", "18/min"),
        ("0.5/h", "12/d"),
        ("60/min", "1/s"),
        ("1000000/s", "1000000/s"),
        ("999999.5/s", "59999970/min"),
        ("0.3/d", "0.3/d"),
        ("7/13min", "32.3077/h"),
        ("1/115d", "0.00869565/d"),
    ],
)
def test_a_rate_is_shown_as_a_whole_number_where_there_is_a_unit_for_it(db, rate, shown):
    queue(db, "set", "q", "--create", "--rate", rate)
    assert queue(db, "ls", "q").splitlines()[1].split() == ["q", "0", shown, "1"]


def test_rare_settings_have_columns_where_a_queue_has_them(db):
    usual = "QUEUE PAUSED RUNNING RATE MAX LENGTH LEASE TTL TRIES WEIGHT FUNCTION"
    heads = lambda *args: " ".join(queue(db, "ls", *args).splitlines()[0].split())
    assert heads() == usual
    queue(db, "set", "a", "--create", "--backoff-floor", "10s", "--backoff-ceiling", "1h", "--backoff-exponent", "2.5")
    queue(db, "set", "b", "--create", "--max-dequeue", "5", "--metadata", '{"x": 1}')
    assert heads("default") == usual
    assert heads("a") == usual + " MIN BACK-OFF MAX BACK-OFF EXPONENT" and heads("b") == usual + " MAX DEQUEUE METADATA"
    assert heads() == usual + " MIN BACK-OFF MAX BACK-OFF EXPONENT MAX DEQUEUE METADATA"
    assert [line.split() for line in queue(db, "ls").splitlines()[1:]] == [
        ["a", "1", "10s", "1h", "2.5"],
        ["b", "1", "5", '{"x":', "1}"],
        ["default", "1"],
    ]


@pytest.mark.parametrize(
    "args, text",
    [
        (["--max-running", "-1"], "option '--max-running': value '-1' is not a whole number from 1 to 1000000"),
        (["--max-length", "0"], "from 1 to 1000000000"),
        (["--max-running", "1.5"], "is not a whole number from 1 to 1000000"),
        (["--weight", "many"], "is not a number from 0.001 to 1000"),
    ],
)
def test_a_wrong_number_is_told_the_range(run, args, text):
    result = run(["deferred", "queue", "set", "q", *args])
    assert result.returncode == USAGE and text in result.stderr


def test_patterns_are_set_listed_and_removed(db):
    assert queue(db, "patterns") == ""
    assert queue(db, "set", "tenant.*", "--rate", "10/s", "--ttl", "1min") == ""
    db.defer("f", queue="tenant.a")
    set_again = json.loads(ok(db.run(["deferred", "--json", "queue", "set", "tenant.*", "--unset", "ttl"])))
    assert [(p["pattern"], p["settings"], p["queues"]) for p in set_again] == [("tenant.*", {"rate": 10}, 1)]
    assert [line.split() for line in queue(db, "patterns").splitlines()] == [
        ["PATTERN", "SETTINGS", "QUEUES"],
        ["tenant.*", "rate", "10", "1"],
    ]
    assert [line.split() for line in queue(db, "ls").splitlines()][0][-1] == "PATTERN"
    assert queue(db, "ls", "tenant.a").splitlines()[1].split() == ["tenant.a", "0", "10/s", "1", "tenant.*"]
    assert json.loads(ok(db.run(["deferred", "--json", "queue", "ls", "tenant.a"])))[0]["pattern"] == "tenant.*"
    assert queue(db, "rm", "tenant.*") == "tenant.*: 0 jobs cancelled, removed\n"
    assert setting(db, "rate", "tenant.a") is None
    fails(db.run(["deferred", "queue", "rm", "tenant.*"]), NOT_DONE, "pattern 'tenant.*' does not exist")
    for word in ("pause", "resume", "clear", "ls"):
        fails(db.run(["deferred", "queue", word, "tenant.*"]), USAGE, "queue name 'tenant.*' is invalid")
    for pattern in ("a*b*", "*a", ".*", "", "x" * 88 + "*"):
        fails(db.run(["deferred", "queue", "set", pattern, "--rate", "1/s"]), USAGE, "is invalid")
    assert db.sql("select verb, queue from deferred.__deferred_action order by id") == [
        ("set", "tenant.*"),
        ("set", "tenant.*"),
        ("remove", "tenant.*"),
    ]


def test_functions_are_listed_set_and_removed(db):
    assert ok(db.run(["deferred", "function", "ls"])) == ""
    ok(db.run(["deferred", "function", "set", "sleep", "--rate", "90/h"]))
    assert json.loads(ok(db.run(["deferred", "function", "set", "sleep", "--max-running", "2", "--json"]))) == [
        {"fn": "sleep", "running": 0, "max_running": 2, "rate": 0.025, "burst": None, "paused_s": None, "on_dead": None}
    ]
    assert ok(db.run(["deferred", "function", "ls"])).splitlines()[1].split() == ["sleep", "0", "2", "90/h"]
    ok(db.run(["deferred", "function", "set", "sleep", "--unset", "rate"]))
    assert ok(db.run(["deferred", "function", "ls"])).splitlines()[1].split() == ["sleep", "0", "2"]
    ok(db.run(["deferred", "function", "rm", "sleep"]))
    assert json.loads(ok(db.run(["deferred", "function", "ls", "--json"]))) == []


def test_clear_and_rm_ask_first(db):
    many(db, 3, queue="q")
    db.defer("noop", queue="q", delay="1h")
    other = db.defer("noop")
    fails(db.run(["deferred", "queue", "clear", "q"]), NOT_DONE, "'q' holds 4 jobs", "--yes")
    fails(db.run(["deferred", "queue", "rm", "q"]), NOT_DONE, "'q' holds 4 jobs", "--force")
    fails(db.run(["deferred", "queue", "rm", "q", "--yes"]), NOT_DONE, "--force")
    assert db.hot() == 5
    assert queue(db, "clear", "q", "--yes") == "q: 4 jobs cancelled\n"
    assert db.hot() == 1
    assert queue(db, "clear", "q") == "q: 0 jobs cancelled\n"
    many(db, 2, queue="q")
    assert json.loads(queue(db, "rm", "q", "--force", "--json")) == {"queue": "q", "cancelled": 2, "removed": True}
    assert "q" not in [q["queue"] for q in json.loads(queue(db, "ls", "--json"))]
    assert db.sql(
        "select distinct outcome, final, error like 'queue cleared by %%' from deferred.__deferred_log", None
    ) == [("cancelled", True, True)]
    assert db.sql("select id from deferred.__deferred_hot") == [(other,)]
    db.defer("noop", queue="q")  # it is back, as new
    assert json.loads(queue(db, "ls", "q", "--json"))[0]["paused"] is False
    ledger(db)


@pytest.mark.parametrize("answer,left", [("y\n", 0), ("n\n", 2), ("\n", 2)])
def test_clear_asks_on_a_terminal(db, answer, left):
    many(db, 2, queue="q")
    master, slave = pty.openpty()
    os.write(master, answer.encode())
    result = db.run(["deferred", "queue", "clear", "q"], stdin=slave)
    os.close(slave)
    os.close(master)
    assert "cancel 2 jobs of queue q? [y/N]" in result.stderr
    assert (result.returncode, db.hot()) == (OK if left == 0 else NOT_DONE, left)


def test_clear_goes_in_short_steps_through_a_long_queue(db):
    db.sql(
        "select count(*) from deferred.defer_many((select json_agg(json_build_object('fn', 'noop', 'queue', "
        "case when i % 2 = 0 then 'q' "
        "else 'r' end)) from generate_series(1, 12000) i))"
    )
    assert queue(db, "clear", "q", "--yes") == "q: 6000 jobs cancelled\n"
    assert db.hot() == 6000 and db.one("select count(distinct finished_at) from deferred.__deferred_log") > 2
    ledger(db)


def test_a_job_held_back_by_a_limit_is_shown_as_such(db):
    queue(db, "set", "q", "--create", "--max-running", "1")
    db.defer("noop", queue="q")
    db.defer("noop")
    lines = ok(db.run(["deferred", "ls"])).splitlines()
    assert "ready (limit)" in lines[1] and "ready (limit)" not in lines[2] and "ready" in lines[2]
    status = ok(db.run(["deferred", "status"]))
    assert [line.split()[-1] for line in status.splitlines() if line.startswith("q ")] == ["limits"]
    queues = {q["queue"]: q for q in json.loads(ok(db.run(["deferred", "status", "--json"])))["queues"]}
    assert queues["q"]["ready"] == 1 and queues["q"]["limited"] and not queues["default"]["limited"]


def test_a_full_queue_from_the_command_line(db):
    queue(db, "set", "q", "--create", "--max-length", "2")
    for _ in range(2):
        ok(db.run(["deferred", "add", "noop", "--queue", "q"]))
    fails(db.run(["deferred", "add", "noop", "--queue", "q"]), NOT_DONE, "queue 'q' is full (max_length 2)", "hint: ")
    queue(db, "set", "q", "--on-full", "drop")
    assert ok(db.run(["deferred", "add", "noop", "--queue", "q"])) == "0\n"
    assert db.hot() == 2


@pytest.mark.slow
def test_workers_and_viewers_have_the_rights_they_need(db):
    logins = {}
    for role in ("worker", "viewer", "producer"):
        name = f"queue_{role}_{os.getpid()}"
        db.sql(f"drop role if exists {name}; create role {name} login; grant deferred_{role} to {name}")
        logins[role] = {"DEFERRED_DB": f"{db.conninfo} user={name}"}

    def as_role(role, *args):
        return db.run(["deferred", *args], env=logins[role])

    try:
        ok(as_role("worker", "queue", "set", "q", "--create", "--max-running", "2", "--rate", "100/s"))
        ok(as_role("worker", "function", "set", "noop", "--max-running", "3"))
        for options in (["--queue", "q"], ["--concurrency-key", "k"], ["--queue", "q", "--concurrency-key", "k"], []):
            for _ in range(3):
                ok(as_role("producer", "add", "noop", *options))
        for args in (["queue", "ls"], ["function", "ls"], ["status"], ["ls"]):
            assert ok(as_role("viewer", *args)) and ok(as_role("worker", *args))
        for args in (
            ["queue", "set", "q", "--weight", "2"],
            ["queue", "pause", "q"],
            ["queue", "clear", "q", "--yes"],
            ["function", "rm", "noop"],
        ):
            fails(as_role("viewer", *args), 77, "permission denied")
            fails(as_role("producer", *args), 77, "permission denied")
        assert db.hot() == 12
        done = db.run(["check_deferred", "--cnt", "0", "--runners", "2"], env=logins["worker"])
        assert done.returncode == 0 and db.hot() == 0, done.stderr
        ok(as_role("worker", "queue", "clear", "q"))
        ok(as_role("worker", "queue", "rm", "q"))
    finally:
        for env in logins.values():
            name = env["DEFERRED_DB"].rpartition("=")[2]
            db.sql(f"drop owned by {name}; drop role {name}")
    ledger(db)
