"""check_deferred --balance: processes of different speed, kept level while they work on one queue."""

import os
import signal
import time

import pytest

import pg
from harness import ledger, wait_for

# One snapshot. Where each live worker stands, by the attempts in the log and the claims it holds, not by what it
# reported; those made before it joined are the steps of the rounds before.
STANDS = """
    select t.worker, t.since::int * %s
           + (select count(*) from deferred.__deferred_log l where l.worker = t.worker)::int
           + (select count(*) from deferred.__held h where h.worker = t.worker)::int
    from deferred.__deferred_track t
    join deferred.__deferred_worker w on w.id = t.worker and w.ended_at is null
    where t.group_name = 'g' and t.lease_until > now()"""


class Group:
    """Workers of one group, each with a config of its own in which a job takes so many seconds."""

    def __init__(self, db, range_):
        self.db, self.range, self.workers = db, range_, []

    def start(self, seconds, *args):
        n = len(self.workers)
        config = os.path.join(self.db.dir, f"worker{n}.conf")
        with open(config, "w") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(f'function "work" {{ command = {{"/bin/sleep", "{seconds}"}} }}\n')
        worker = self.db.spawn(
            [
                "check_deferred",
                "--cnt",
                "0",
                "--balance",
                f"g:{self.range}",
                "--pidfile",
                self.db.pidfile + str(n),
                *args,
            ],
            env={"DEFERRED_CONFIG": config},
        )
        self.workers.append(worker)
        return worker

    def stands(self):
        return dict(self.db.sql(STANDS, self.range))

    def sample(self, seconds, live):
        """Look as often as can be; returns (number of looks, greatest difference seen, where they
        stood first and last)."""
        first = last = self.stands()
        looks = greatest = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            at = self.stands()
            assert len(at) == live, at
            difference = max(at.values()) - min(at.values())
            assert difference <= self.range, at
            looks, greatest, last = looks + 1, max(greatest, difference), at
        return looks, greatest, first, last

    def all_live(self):
        return wait_for(lambda: len(self.stands()) == len(self.workers), what="all workers joined")

    def worker_id(self, worker):
        return self.db.one("select id from deferred.__deferred_worker where pid = %s", worker.pid)

    def round(self):
        return self.db.one("select round from deferred.__deferred_group where name = 'g'")

    def stop(self):
        for w in self.workers:
            if w.alive():
                w.signal(signal.SIGTERM)
        for w in self.workers:
            w.wait(30)


@pytest.fixture
def group(db):
    made = []

    def make(*args):
        made.append(Group(db, *args))
        return made[-1]

    yield make
    for g in made:
        g.stop()


def defer_work(db, n):
    db.sql("select count(deferred.defer('work')) from generate_series(1, %s)", n)


@pytest.mark.slow
@pytest.mark.parametrize("runners", ["1", "3"])
def test_four_workers_one_ten_times_slower_stay_within_the_range(db, group, runners):
    defer_work(db, 5000)
    g = group(5)
    for seconds in "0.01", "0.01", "0.02", "0.3":  # the last one is the slowest on a busy machine too
        g.start(seconds, "--runners", runners)
    g.all_live()
    looks, greatest, first, last = g.sample(5, live=4)
    for _ in range(10):  # a busy machine takes longer
        if looks > 50 and min(last.values()) - min(first.values()) >= 2 * g.range and greatest >= g.range - 1:
            break
        more, apart, _, last = g.sample(5, live=4)
        looks, greatest = looks + more, max(greatest, apart)
    print(f"{looks} looks, greatest difference {greatest}, from {first} to {last}")
    # They went on, round after round, at the pace of the slowest, and did run apart as far as they may.
    assert looks > 50
    assert min(last.values()) - min(first.values()) >= 2 * g.range
    assert g.range - 1 <= greatest <= g.range
    g.stop()
    ledger(db)


@pytest.mark.long
def test_jobs_given_back_are_no_steps(db, group):
    """Short jobs are claimed ahead, up to the end of the round; when a long one turns up among them the rest is given
    back, and those steps have not been made. Then others must not have gone on."""
    db.sql(
        """select count(deferred.defer('sleep', json_build_object('ms', case when i % 60 = 0 then 700 else 0 end)))
              from generate_series(1, 30000) i"""
    )
    g = group(40)
    for _ in range(3):
        g.start("0")
    g.all_live()
    looks, greatest, first, last = g.sample(6, live=3)
    print(f"{looks} looks, greatest difference {greatest}, from {first} to {last}")
    assert looks > 30 and min(last.values()) - min(first.values()) >= g.range
    g.stop()
    ledger(db)


@pytest.mark.slow
def test_a_worker_killed_holds_up_the_others_no_longer_than_its_lease(db, group):
    defer_work(db, 5000)
    g = group(5)
    lease = 8  # a quarter of it is left to find out, on a busy machine too
    for seconds in "0.01", "0.01", "0.01", "0.3":
        g.start(seconds, "--lease", f"{lease}s")
    g.all_live()
    slow = g.worker_id(g.workers[3])
    wait_for(lambda: g.round() >= 1)
    # In the middle of a round, the others at its end and waiting.
    wait_for(lambda: sorted(g.stands().values())[1] - g.stands().get(slow, 0) >= 3, what="the others wait")
    before = g.round()
    killed = time.monotonic()
    g.workers[3].signal(signal.SIGKILL)
    g.workers[3].wait()
    while g.round() == before:
        at = g.stands()
        assert max(at.values()) - min(at.values()) <= g.range
        assert time.monotonic() - killed < lease, "released too late"
        time.sleep(0.005)
    released = time.monotonic() - killed
    print(f"released after {released:.2f} s of a lease of {lease} s")
    # And from then on they run at their own speed.
    assert slow not in g.stands()
    looks, _, first, last = g.sample(2, live=3)
    for _ in range(10):
        if looks > 20 and min(last.values()) - min(first.values()) >= 2 * g.range:
            break
        more, _, _, last = g.sample(2, live=3)
        looks += more
    assert looks > 20 and min(last.values()) - min(first.values()) >= 2 * g.range
    g.stop()
    wait_for(lambda: db.one("select count(*) from deferred.__held where worker = %s", slow) == 0)
    assert (
        db.run(["check_deferred", "--cnt", "1", "--pidfile", db.pidfile + "3"]).returncode == 0
    )  # takes over what it held
    ledger(db)


@pytest.mark.long
def test_connections_lost_again_and_again_keep_the_bound(db, group):
    """Whatever was under way, a claim, a report or its answer: it is repeated, and counts once."""
    db.sql("select count(deferred.defer('sleep', json_build_object('ms', i % 4))) from generate_series(1, 30000) i")
    g = group(10)
    for _ in range(3):
        g.start("0", "--runners", "2")
    g.all_live()
    end, lost, began = time.monotonic() + 8, 0, g.round()
    while time.monotonic() < end or (g.round() <= began + 5 and time.monotonic() < end + 60):
        lost += db.one(
            """select count(pg_terminate_backend(pid)) from pg_stat_activity
                          where application_name = 'check_deferred' and datname = current_database()"""
        )
        pause = time.monotonic() + (0.4 if lost < 40 else 2)  # so that all get further, on a busy machine too
        while time.monotonic() < pause:
            at = g.stands()
            assert len(at) == 3 and max(at.values()) - min(at.values()) <= g.range, at
    print(f"{lost} connections lost, {g.round() - began} rounds")
    assert lost > 15 and g.round() > began + 5
    g.stop()
    ledger(db)


def test_one_told_to_stop_releases_the_others_at_once(db, group):
    defer_work(db, 2000)
    g = group(5)
    for seconds in "0.01", "0.01", "60":
        g.start(seconds, "--lease", "60s", "--grace", "20s")
    g.all_live()
    wait_for(lambda: sorted(g.stands().values())[1] >= 5, what="the others wait")
    wait_for(
        lambda: any(pg.children_of(runner) for runner in pg.children_of(g.workers[2].pid)), what="its job has begun"
    )
    before = g.round()
    g.workers[2].signal(signal.SIGTERM)  # it has 20 s of grace for the job at hand; nobody waits for that
    wait_for(lambda: g.round() > before + 2, 10)
    assert g.workers[2].alive()
    g.workers[2].signal(signal.SIGTERM)  # a second one ends the grace


@pytest.mark.slow
def test_a_worker_without_work_does_not_hold_up_the_others(db, group):
    """Two queues. One worker's is empty after its first job, which it is still at, having a second runner idle."""
    db.sql("select count(deferred.defer('work', '{}', '{\"queue\": \"full\"}')) from generate_series(1, 200)")
    db.defer("work", queue="short")
    g = group(5)
    short = g.start(
        "20", "--queue", "short", "--runners", "2", "--grace", "1s"
    )  # longer than the other takes for 50, on a busy machine too
    wait_for(lambda: db.one("select count(*) from deferred.__held where queue = 'short'") == 1)
    g.start("0.005", "--queue", "full")
    wait_for(lambda: db.one("select count(*) from deferred.__deferred_hot where queue = 'full'") < 150)
    assert db.one("select count(*) from deferred.__deferred_hot where queue = 'short'") == 1
    assert g.worker_id(short) not in g.stands()
    # When it gets more to do it is in the group again, in the round then under way, and is waited for.
    before = g.round()
    db.sql("select count(deferred.defer('work', '{}', '{\"queue\": \"short\"}')) from generate_series(1, 20)")
    db.sql("select count(deferred.defer('work', '{}', '{\"queue\": \"full\"}')) from generate_series(1, 2000)")
    wait_for(lambda: g.worker_id(short) in g.stands())
    assert db.one("select since from deferred.__deferred_track where worker = %s", g.worker_id(short)) > before
    joined = g.round()
    time.sleep(1)
    assert g.round() <= joined + 1
    assert short.alive()


def test_a_worker_without_work_does_not_come_back_for_nothing(db, group):
    """While its last jobs end, one by one, it looks for more each time: that makes nobody wait for it."""
    for n in range(6):
        db.defer("sleep", f'{{"ms": {200 + n * 150}}}')
    g = group(10)
    g.start("0", "--runners", "6").wait(20)
    wait_for(lambda: db.one("select count(*) from deferred.__deferred_log where outcome = 'ok'") == 6)
    db.sql("select pg_stat_force_next_flush()")
    joined = wait_for(lambda: db.one("select n_tup_ins from pg_stat_user_tables where relname = '__deferred_track'"))
    assert joined <= 2


@pytest.mark.slow
def test_all_jobs_are_done_and_everybody_goes_home(db, group):
    """No deadlock, whatever the range: small ones, many runners, results that come in crowds."""
    for range_ in 1, 3, 50:
        n = 400
        db.sql("select count(deferred.defer('noop')) from generate_series(1, %s)", n)
        before = db.one("select count(*) from deferred.__deferred_log where outcome = 'ok'")
        workers = [
            db.spawn(
                [
                    "check_deferred",
                    "--cnt",
                    "0",
                    "--balance",
                    f"all{range_}:{range_}",
                    "--pidfile",
                    f"{db.pidfile}{i}",
                    "--runners",
                    str(1 + i % 2),
                ]
            )
            for i in range(4)
        ]
        for w in workers:
            assert w.wait(60) == 0, w.output()
        assert db.one("select count(*) from deferred.__deferred_log where outcome = 'ok'") - before == n
        assert db.sql("select * from deferred.__deferred_track") == []
    ledger(db)


def test_an_unknown_function_is_no_step(db, group):
    """Jobs given back because no plugin here has their function leave the steps to be made."""
    db.sql("select count(deferred.defer('nobody_has_this')) from generate_series(1, 20)")
    db.sql("select count(deferred.defer('noop')) from generate_series(1, 40)")
    done = db.run(["check_deferred", "--cnt", "0", "--balance", "g:7"])
    assert done.returncode == 0, done.stderr
    assert db.one("select count(*) from deferred.__deferred_log") == 40
    ledger(db)


@pytest.mark.slow
def test_waiting_costs_next_to_nothing(db, group):
    """The fast one waits for the slow one most of the time: it asks now and then, and never spins."""
    defer_work(db, 2000)
    g = group(1)
    g.start("0.001")
    g.start("20")
    g.all_live()
    wait_for(lambda: min(g.stands().values()) >= 1, what="both began their step")
    time.sleep(1)
    pid = g.workers[0].pid

    def ticks():
        with open(f"/proc/{pid}/stat") as f:
            return sum(int(x) for x in f.read().rsplit(")", 1)[1].split()[11:13])

    began = ticks()
    statements = db.one("select xact_commit + xact_rollback from pg_stat_database where datname = current_database()")
    time.sleep(3)
    assert ticks() - began <= 3  # of 300
    db.sql("select pg_stat_force_next_flush()")
    assert (
        db.one("select xact_commit + xact_rollback from pg_stat_database where datname = current_database()")
        - statements
        < 100
    )


@pytest.mark.parametrize(
    "value,says",
    [
        ("g", "is not GROUP:RANGE"),
        ("g:0", "has no range"),
        ("g:-1", "has no range"),
        ("g:1.5", "has no range"),
        ("g:nan", "has no range"),
        (":5", "has no group"),
        ("a b:5", "has no group"),
    ],
)
def test_nonsense_is_refused_with_the_option_named(db, value, says):
    done = db.run(["check_deferred", "--balance", value])
    assert done.returncode == 64
    assert f"option '--balance': value '{value}' {says}" in done.stderr


def test_it_is_a_setting_of_the_file_and_the_environment(db):
    db.defer("noop"), db.defer("noop")
    db.config('balance = "from_file:3"\n')
    assert db.run(["check_deferred"]).returncode == 0
    assert db.run(["check_deferred"], env={"DEFERRED_BALANCE": "from_env:4"}).returncode == 0
    assert db.sql("select name, steps from deferred.__deferred_group order by name") == [
        ("from_env", 4),
        ("from_file", 3),
    ]
