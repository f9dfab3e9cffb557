"""`deferred simulate` and `deferred advise`: what they say of a log made up, what they refuse, and
whether what is advised comes true with the real check_deferred.

Cron is played here, in scaled time: an interval lasts so many seconds instead of minutes, and so do run times. What a
start of check_deferred takes, and what lies between two attempts, cannot be scaled: it is measured, first to advise,
and again while the advice is followed, for on a machine that is busy it is another. `make check-advise` does it for all
seeded workloads.
"""

import json
import math
import os
import random
import re
import shlex
import statistics
import time

import pytest

from harness import SAN, program, wait_for
from made_log import arrivals, history, write_log
from test_deferred import login

pytestmark = pytest.mark.by_hand
OK, NOT_DONE, USAGE = 0, 1, 64
ALL = [int(seed) for seed in os.environ.get("DEFERRED_ADVISE", "").split(",") if seed]
SEEDS = ALL or [6]
TICK_S = 2 if ALL else 1  # an interval, here
TICKS = 60 if ALL else 5


def ask(db, command, *args, code=OK, env=None):
    done = db.run(["deferred", "--json", command, *args], env=env)
    assert done.returncode == code and done.stderr == "", done
    return json.loads(done.stdout)


def test_what_the_log_tells(db):
    """Two queues; as a viewer, in words and as JSON; one that is too small, one that is not there;
    sums that are not folded yet and those that are."""
    rng = random.Random(3)
    name, viewer = login(db, "deferred_viewer")
    said = db.run(["deferred", "advise"])
    assert said.returncode == NOT_DONE and said.stdout.startswith(
        "too little is known for a promise: the log has 0 attempts"
    )
    assert "starts have to come at least each 126s" in said.stdout
    assert db.run(["deferred", "simulate"]).stderr == (
        "deferred: the log has no attempts in that time to be replayed\nhint: go back further with --since\n"
    )
    # as the jobs come, so the promise: from one moment to the next it is 120 s, or a little more
    tick = "date_bin('2 minutes', now(), 'epoch')"
    write_log(db, history(rng, 0.5, lambda r: 4.0, 2), "mail", tick)
    write_log(db, history(rng, 0.1, lambda r: 10.0, 2), "images", tick)
    few = ask(db, "advise", "--queue", "images", code=NOT_DONE)
    assert (
        few["answer"] == "too_little" and ask(db, "advise", "--queue", "images", "--scale", "10", code=NOT_DONE) == few
    ), "the same ten times over tells no more"

    told = ask(db, "advise", "--share", "95", "--within", "2min", env=viewer)
    assert (
        told["answer"] == "found"
        and told["interval_s"] == 120
        and told["runners"] == told["instances"] == 1
        and 3 <= told["cnt"] <= 15
    )
    assert 100 < told["predicted_s"] <= told["bound_s"] <= 120 and told["keeps_up"] == "yes" and told["attempts"] > 1500
    assert [w["queue"] for w in told["waits"]] == ["mail", "images", "*"] or [w["queue"] for w in told["waits"]] == [
        "images",
        "mail",
        "*",
    ]
    assert max(w["p95_s"] for w in told["waits"]) == told["predicted_s"]
    (line,) = told["lines"]
    assert (
        line == f"*/2 * * * *   root   {program('check_deferred')} --cnt {told['cnt']:.0f} --if-running=skip "
        f"2>>/var/log/deferred.log"
    )
    assert told["attempts"] == ask(db, "simulate", "--line", "*/2 * * * * --cnt 0", env=viewer)["attempts"]

    db.run(["deferred", "fold", "--rebuild"])
    folded = ask(db, "advise", "--within", "2min")
    assert {k: folded[k] for k in ("lines", "bound_s")} == {k: told[k] for k in ("lines", "bound_s")} and folded[
        "waiting"
    ] == 0
    assert 40 <= folded["arrive_peak_hour"] <= 70 and folded["arrive_now_hour"] is not None
    assert ask(db, "advise", "--queue", "mail", "--within", "20s")["lines"] == [
        f"{program('check_deferred')} --loop --listen --queue mail --pidfile /run/defer_mail"
    ]
    words = db.run(["deferred", "advise", "--within", "5min", "--queue", "mail"]).stdout
    assert (
        "\n*/5 * * * *   root   " in words
        and "\npromise: 95 % of the jobs of each queue start within " in words
        and "\nserved: at most " in words
        and "\nbased on: " in words
    )

    # The classic line serves 30 an hour.
    told = ask(db, "simulate", "--scale", "2")
    assert (
        told["served_hour"] == 30
        and told["keeps_up"] == "no"
        and told["not_begun"] > 100
        and told["waits"][-1]["longest_s"] is None
    )
    words = db.run(["deferred", "simulate", "--line", "*/2 * * * *", "--scale", "2"]).stdout
    assert (
        "\nserved: at most 30 an hour, which is less than arrives: the backlog grows; " in words
        and "\nnot begun by the end: " in words
    )
    assert ask(db, "simulate", "--service", "runners 1")["waits"][-1]["p50_s"] == 0
    assert (
        "change neither interval nor cnt"
        in db.run(["deferred", "advise", "--scale", "30", "--max-runners", "1"]).stdout
    )
    late = ask(db, "advise", "--within", "1ms", "--max-runners", "1", code=NOT_DONE)
    assert late["answer"] == "too_late" and late["lines"] == []

    # What was advised is a question as it stands, and the same replay.
    for asked in (
        ["--within", "2min"],
        ["--within", "20s", "--queue", "mail"],
        ["--within", "1min", "--queue", "mail", "--share", "80"],
    ):
        told = ask(db, "advise", *asked)
        lines = [word for line in told["lines"] for word in ("--line" if told["interval_s"] else "--service", line)]
        again = ask(db, "simulate", *lines, *asked[2:4])
        assert (
            again["waits"] == told["waits"]
            and again["served_hour"] == told["served_hour"]
            and again["lines"][0]["line"] == told["lines"][0]
        )

    # What has arrived and not begun is no part of the log, and counts all the same.
    db.sql(
        "insert into deferred.__deferred (id, queue, fn, params, "
        "created_at) select nextval('deferred.__deferred_id_seq'), 'mail', 'sleep', '{}', "
        "now() - interval '3 hours' from generate_series(1, 2000)"
    )
    db.run(["deferred", "fold", "--rebuild"])
    more = ask(db, "simulate", "--queue", "mail")
    assert 1950 <= more["waiting"] <= 2020 and more["arrive_hour"] > 60


def test_several_lines_and_services(db):
    """Queues have their own lines, times of day, starts that replace a copy, and growing run times.
    Advice quotes a text that is not a line, and says how to correct it."""
    rng = random.Random(5)
    write_log(db, history(rng, 0.5, lambda r: 4.0, 2), "mail")
    write_log(db, history(rng, 0.1, lambda r: 10.0, 2), "images")

    def waits(*args):
        return {w["queue"]: w for w in ask(db, "simulate", *args)["waits"]}

    told = waits("--line", "*/5 * * * * --queue mail --cnt 0", "--service", "runners 2 queue images")
    assert 100 < told["mail"]["p50_s"] < 250 and told["images"]["p95_s"] < 5
    assert waits("--line", "*/5 * * * * --queue mail --cnt 0")["images"]["p50_s"] is None, "nobody serves it"
    # At 7 and at 19 o'clock: a half waits for up to twelve hours.
    daily = waits("--line", "0 7,19 * * * --cnt 0 --if-running=skip --runners 4")["*"]
    assert 4 * 3600 < daily["p50_s"] < 8 * 3600 and 11 * 3600 < daily["p95_s"] < 12.5 * 3600
    assert (
        waits("--line", "*/10 * * * * --cnt 0", "--line", "5-55/10 * * * * --cnt 0")["*"]["longest_s"]
        < waits("--line", "*/10 * * * * --cnt 0")["*"]["longest_s"]
    )

    # Thirty times as long they take 120 s, and 300: a start in between ends them, but for what is done in the grace.
    lost = ask(db, "simulate", "--queue", "mail", "--line", "* * * * * --cnt 0", "--run-scale", "sleep=30")
    assert lost["run_s"] == 120 and lost["lost"] > 1000 and lost["lines"][0]["if_running"] == "replace"
    kept = ask(
        db,
        "simulate",
        "--queue",
        "mail",
        "--line",
        "* * * * * --cnt 0 --if-running=skip --runners 2",
        "--run-scale",
        "sleep=30",
        "--run-scale",
        "other=2",
    )
    assert kept["lost"] == 0 and kept["skipped"] > 1000 and kept["not_begun"] == 0
    words = db.run(
        ["deferred", "simulate", "--line", "* * * * *", "--run-scale", "sleep=30", "--run-scale", "other=2"]
    ).stdout
    assert (
        "\nlost: " in words
        and "run times of sleep 30 times what they were, in " in words
        and "run times of other 2 times what they were, in 0 attempts" in words
    )

    for args, code, text in (
        (
            ["--line", "*/2 * * *"],
            65,
            "line '*/2 * * *': fewer than five fields of time: '*/2 * * *'\nhint: write minute hour day month weekday",
        ),
        (["--line", "*/2 * * * * --cnt ten"], 65, "'ten'\nhint: for example --cnt 10"),
        (
            ["--line", "61 * * * * --cnt 1"],
            65,
            "line '61 * * * * --cnt 1': schedule rule '61 * * * *': minute '61' is out of range (0 to 59)\nhint: "
            "write numbers from 0 to 59",
        ),
        (
            ["--line", "0 0 L * * --cnt 1"],
            65,
            'line \'0 0 L * * --cnt 1\': crontab rule \'0 0 L * *\' is not supported by cron\nhint: \'every\', L and #',
        ),
        (["--line", "0 0 * * MON#1"], 65, "crontab rule '0 0 * * MON#1' is not supported by cron"),
        (
            ["--line", "* * * * * --pidfile /run/a", "--line", "5 * * * * --pidfile /run/a"],
            65,
            "two lines have the pid file '/run/a'",
        ),
        (["--service", "--loop"], 65, "add --listen"),
        (["--run-scale", "sleep"], 64, "'sleep' is not of the form FUNCTION=X"),
        (["--run-scale", "sleep=0"], 64, "'0' is not a number from 0.01 to 100"),
        (["--interval", "2min"], 64, "option '--interval' is unknown"),
        (["--line", "* * * * *"] * 65, 64, "more than 64 lines and services"),
    ):
        done = db.run(["deferred", "simulate", *args])
        assert done.returncode == code and text in done.stderr, done


def test_an_advice_begins_with_what_the_lines_of_today_give(db):
    """As simulate says of them: those that are given, or those that workers were started by."""
    write_log(db, history(random.Random(3), 0.5, lambda r: 4.0, 2), "mail")
    assert "today" not in ask(db, "advise") and not db.run(["deferred", "advise"]).stdout.startswith("today")

    def as_simulated(*lines, queue=()):
        waits = ask(db, "simulate", *lines, *queue)["waits"]
        return waits[-1]["p95_s"], waits[-1]["longest_s"]

    line, service = "*/5 * * * * --cnt 3 --if-running=skip", "--listen --runners 2"
    for given, simulated in (
        ([line], ["--line", line]),
        ([service], ["--service", service]),
        ([line, "check_deferred --loop --listen --pidfile /run/x"], ["--line", line, "--service", "--listen"]),
    ):
        told = ask(db, "advise", *[word for text in given for word in ("--line", text)])["today"]
        assert (told["lines"], told["given"], (told["share_s"], told["longest_s"])) == (
            given,
            True,
            as_simulated(*simulated),
        )
    refused = db.run(["deferred", "advise", "--line", "*/5 * * * --cnt 3"])
    assert refused.returncode not in (OK, NOT_DONE) and "*/5 * * *" in refused.stderr

    # A line is seen where there was work: some of its starts were not.
    db.sql(
        "insert into deferred.__deferred_worker (instance, host, pid, version, started_at, seen_at, ended_at, cnt, "
        "runners, mode, queues) "
        "select h || ':/run/d.pid#1.1@1', h, 1, '1', t, t, t, 3, 1, 'run', q "
        "from (values ('a', null::text[]), ('b', '{other}')) v(h, q), "
        "generate_series(now() - interval '3 hours', now(), interval '5 min') with ordinality s(t, i) where i % 4 <> 0"
    )
    # What nobody can have been started by is passed over: whoever may run jobs could have written it.
    db.sql(
        "insert into deferred.__deferred_worker (instance, host, pid, version, cnt, runners, mode, queues) "
        "values ('A:/run/d.pid#1.1@1', 'A', 1, '1', 0, 4, 'listen', array['mail', 'x --bogus'])"
    )
    words = db.run(["deferred", "advise", "--queue", "mail"]).stdout
    assert re.match(
        r"today: 95 % of the jobs start within \S+, the longest wait is \S+, in a replay of the log with the crontab "
        r"lines of the last day\n"
        r"      \*/5 \* \* \* \* --cnt 3 --runners 1 --if-running=skip\n\n# in /etc/cron.d/deferred",
        words,
    ), words
    told = ask(db, "advise", "--queue", "mail")["today"]
    assert (told["given"], (told["share_s"], told["longest_s"])) == (
        False,
        as_simulated("--line", line, queue=["--queue", "mail"]),
    )
    assert len(ask(db, "advise")["today"]["lines"]) == 2
    db.sql(
        "insert into deferred.__deferred_worker (instance, host, pid, version, cnt, runners, mode, queues) "
        "values ('c:/run/d.pid#1.1@1', 'c', 1, '1', 0, 4, 'listen', '{mail,img}')"
    )
    assert ask(db, "advise")["today"]["lines"][-1] == "--cnt 0 --runners 4 --queue img --queue mail"
    db.sql("update deferred.__deferred_worker set mode = 'loop' where host = 'c'")
    assert "today" not in ask(db, "advise"), "what is not replayed is not guessed"


def test_a_service_that_is_advised_registers_what_later_advice_looks_for(db):
    write_log(db, history(random.Random(6), 0.5, lambda r: 0.1, 2), "mail")
    told = ask(db, "advise", "--within", "5s", "--queue", "mail")
    words = shlex.split(told["lines"][0])
    words[words.index("--pidfile") + 1] = f"{db.pidfile}_service"
    db.spawn(["check_deferred", *words[1:]])
    job = db.defer("noop", queue="mail")
    wait_for(lambda: db.sql("select outcome from deferred.__deferred_log where job_id = %s", job) == [("ok",)])
    assert db.sql("select cnt, runners, mode, queues from deferred.__deferred_worker") == [
        (0, told["runners"], "listen", ["mail"])
    ]
    assert db.run(["check_deferred", "--cnt", "3", "--runners", "1..4"]).returncode == 0
    db.defer("noop")
    assert db.run(["check_deferred", "--cnt", "3", "--runners", "1..4"]).returncode == 0
    assert db.sql("select cnt, runners, mode, queues from deferred.__deferred_worker order by id desc limit 1") == [
        (3, 4, "run", None)
    ]


@pytest.mark.parametrize(
    "args",
    [
        ["--share", "100"],
        ["--share", "x"],
        ["--share", "nan"],
        ["--within", "0"],
        ["--queue", "a b"],
        ["--headroom", "0.5"],
        ["--max-runners", "65"],
        ["more"],
    ],
)
def test_what_is_no_question(db, args):
    assert db.run(["deferred", "advise", *args]).returncode == USAGE


def test_only_so_much_of_the_log_is_read(db):
    """A queue whose busiest hour lies before what may be read: that is read too, and what is said
    is that the log reaches back further."""
    db.sql(
        """
        with job as (select nextval('deferred.__deferred_id_seq') as id,
        now() - i * interval '2 seconds' - interval '1 min' as at from generate_series(1, 52000) i
                     union all select nextval('deferred.__deferred_id_seq'), date_trunc('hour',
                     now()) - interval '50 hours' + i * interval '500 ms' from generate_series(1, 7000) i),
        call as (insert into deferred.__deferred (id, queue, fn, params, created_at) select id, 'default',
        'noop', '{}', at from job)
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at, wait_us, run_us)
        select id, 1, 'ok', true, at, at, 0, 100000 from job"""
    )
    db.run(["deferred", "fold", "--rebuild"])
    told = ask(db, "simulate", "--line", "*/2 * * * * --cnt 0")
    assert (
        told["log_reaches_further"] is True
        and 40000 < told["attempts"] <= 60000
        and told["waits"][-1]["queue"] == "* in the busiest hours"
    )
    assert told["waits"][-1]["attempts"] == 7000 and told["arrive_peak_hour"] > 6000


# ---- followed -----------------------------------------------------------------------------------


def workload(seed):
    """Rate, run times (seconds), bursts, the promise (minutes)."""
    rng = random.Random(1000 + seed)
    within = [2, 2, 5, 10, 1][seed % 5]
    mean = within * rng.uniform(0.6, 2.5)
    run = [
        lambda r: mean,
        lambda r: min(r.expovariate(1 / mean), 6 * mean),
        lambda r: mean * (0.5 if r.random() < 0.8 else 3),
    ][seed % 3]
    return rng.uniform(6, 16) / within, run, (1, 1, 1, 3)[seed % 4], within


def forget(db, past=()):
    """As if nothing but that had ever been deferred, and no sums were kept."""
    db.sql("delete from deferred.__deferred_log; delete from deferred.__deferred")
    write_log(db, past)
    db.sql(
        "delete from deferred.__deferred_sum; update deferred.__deferred_folded "
        "set folded_to = now(), id_to = (select last_value from deferred.__deferred_id_seq)"
    )


def measured_start(db):
    """Seconds from a start of check_deferred to its first attempt, and from one attempt to the next."""
    starts, gaps = [], []
    for _ in range(3):
        jobs = [db.defer("sleep", '{"ms": 1}') for _ in range(3)]
        began = time.time()
        assert db.run(["check_deferred", "--cnt", "3"]).returncode == 0
        rows = db.sql(
            "select extract(epoch from started_at)::float8, extract(epoch from finished_at)::float8 "
            "from deferred.__deferred_log where job_id = any (%s) order by 1",
            jobs,
        )
        starts.append(rows[0][0] - began)
        gaps += [b[0] - a[1] for a, b in zip(rows, rows[1:])]
    return statistics.median(starts), max(0.0, statistics.median(gaps))


def play(db, lines, interval, jobs, seconds):
    """Cron starts the lines every `interval` seconds; 0: a service is started once. Each of `jobs`,
    (when, run time), is deferred at its time. Returns the time of the start."""
    events = sorted(
        [(t, 1, run) for t, run in jobs]
        + ([(i * interval, 0, None) for i in range(int(seconds / interval) + 3)] if interval else [(0, 0, None)])
    )
    begin = time.time() + 0.2
    for t, kind, run in events:
        time.sleep(max(0.0, begin + t - time.time()))
        if kind == 1:
            db.defer("sleep", json.dumps({"ms": round(run * 1000)}))
        else:
            for line in lines:
                db.spawn(line)
    wait_for(lambda: db.hot() == 0, timeout=60)
    return begin


def overheads(db, begin, interval):
    """Seconds from a tick to the first attempt of a run, and from one attempt of a runner to the
    next, medians of what has just been."""
    starts, gaps = [], []
    for first, rows in db.sql(
        """
            select min(extract(epoch from l.started_at))::float8, array_agg(extract(epoch
            from l.started_at)::float8 order by l.started_at)
                   || array_agg(extract(epoch from l.finished_at)::float8 order by l.started_at)
            from deferred.__deferred_log l group by l.worker"""
    ):
        if interval:
            starts.append((first - begin) % interval)
        half = len(rows) // 2
        gaps += [b - a for a, b in zip(rows[half:], rows[1:half]) if 0 <= b - a < 0.2]
    return statistics.median(starts) if starts else 0, statistics.median(gaps) if gaps else 0


@pytest.mark.skipif(SAN, reason="a start takes too long there to be scaled")
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_advised_comes_true(db, seed):
    a_minute, run, burst, within = workload(seed)
    rng = random.Random(seed)
    start, between = measured_start(db)
    past = history(rng, a_minute, run, 1.5, burst)
    forget(db, past)
    told = {"interval_s": within * 60}

    def overhead(start, between):
        return ["--start", f"{start * scale * 1000:.0f}ms", "--between", f"{between * scale * 1000:.0f}ms"]

    for _ in range(2):  # what a start takes depends on the scale, that on the interval, and that on what a start takes
        scale = (told["interval_s"] or within * 60) / TICK_S  # seconds that a second stands for
        told = ask(db, "advise", "--within", f"{within}min", *overhead(start, between))
        assert told["answer"] == "found", told
    forget(db)

    # The fields of the crontab, and the user, are cron's. Where two lines have a pid file each, they have one here.
    lines = []
    for i, line in enumerate(told["lines"]):
        words = shlex.split(line.split(" 2>>")[0])
        words = words[next(i for i, w in enumerate(words) if w.endswith("check_deferred")) + 1 :]
        if "--pidfile" in words:
            words[words.index("--pidfile") + 1] = f"{db.pidfile}_{i}"
        lines.append(["check_deferred", *words])
    interval = told["interval_s"] / scale
    seconds = TICKS * TICK_S
    if interval:
        seconds = math.ceil(seconds / interval) * interval
    begin = play(
        db,
        lines,
        interval,
        [(t / scale, run(rng) / scale) for t in arrivals(rng, a_minute, seconds * scale, burst)],
        seconds,
    )
    waits = sorted(
        w for w, in db.sql("select wait_us / 1e6::float8 from deferred.__deferred_log where wait_us is not null")
    )
    p95 = waits[math.ceil(0.95 * len(waits)) - 1] * scale
    took = overheads(db, begin, interval)

    forget(db, past)
    given = [word for line in told["lines"] for word in ("--line" if interval else "--service", line)]
    then = ask(db, "simulate", *given, *overhead(*took))["waits"][-1]["p95_s"]
    print(
        f"seed {seed}: {told['interval_s']:.0f} s, {told['instances']} x {told['runners']}, cnt {told['cnt']}; "
        f"1:{scale:.0f}; {len(waits)} jobs: "
        f"promised {told['predicted_s']:.1f} s, bound {told['bound_s']:.1f} s, measured {p95:.1f} s "
        f"({p95 / told['predicted_s'] - 1:+.0%}); "
        f"start {start:.3f} s, then {took[0]:.3f} s, between {between:.3f} s, then {took[1]:.3f} s, for which the "
        f"promise is {then:.1f} s ({p95 / then - 1:+.0%})"
    )
    # Beside other tests a few runs are late, and of five there are none to spare: how near it comes
    # is what make check-advise asserts.
    assert 0.8 < p95 / then < 1.2 if ALL else 0.4 < p95 / then < 2.5


def test_several_lines_have_a_pid_file_each_that_no_queue_has(db):
    """Queue mail, line 1, and a queue named mail_1 once had the same: each would have ended the other."""
    met = 0
    for seed in range(10):  # whether many lines of one runner do with less than one of many is for the history to say
        queue = f"mail{seed}"
        write_log(db, history(random.Random(seed), 2, lambda r: 200.0, 2), queue)
        lines = ask(db, "advise", "--queue", queue, "--within", "2min")["lines"]
        if len(lines) > 1:
            met += 1
            assert [line.split(" --pidfile ")[1].split()[0] for line in lines] == [
                f"/run/defer_{queue}+{i + 1}" for i in range(len(lines))
            ]
        if met == 2:
            return
    assert met
