"""What docs/how-to/upgrade.md promises: programs of one version beside those of another, on the schema of either, under
load and kills.

`make check-upgrade` upgrades from the last release. The other test upgrades to this tree with one more migration."""

import glob
import os
import random
import re
import shutil
import signal
import subprocess

import pytest

import harness
import pg
import releases
from campaign import CONFIG, Upgrade

LONG = "DEFERRED_UPGRADE" in os.environ
NEXT = """-- A test of migrations that are still to be written.
-- oldest: 1

set local role deferred_owner;

lock table deferred.__deferred_queue, deferred.__deferred_hot, deferred.__deferred in access exclusive mode;
alter table deferred.__deferred add column note text;
alter table deferred.__deferred_hot add column note text;
create index __deferred_hot_note on deferred.__deferred_hot (note) where note is not null;

reset role;
"""


@pytest.fixture(scope="module")
def next_build():
    """This tree with one more migration and with changed functions. Objects of this tree's build are used again."""
    place = os.path.join(releases.PLACE, "next")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(os.path.join(place, "tests"))
    for name in "Makefile", "lib", "bin", "sql", "cron", "tests/tests.mk", "tests/bench", "tests/plugins":
        subprocess.run(["cp", "-a", os.path.join(pg.TOP, name), os.path.join(place, name)], check=True)
    os.makedirs(os.path.join(place, "build"))
    for name in "flags", "gen", "obj", "lib", "bin", "plugins", "completion":
        subprocess.run(["cp", "-a", os.path.join(pg.BUILD, name), os.path.join(place, "build", name)], check=True)
    with open(os.path.join(place, "sql", "migrations", f"{newest() + 1:04}_next.sql"), "w") as f:
        f.write(NEXT)
    edit(os.path.join(place, "lib", "store", "migrate.h"), r"(#define MIGRATE_VERSION_MAX) \d+", rf"\1 {newest() + 1}")
    for path in glob.glob(os.path.join(place, "sql", "functions", "*", "*.sql")):
        if os.path.basename(os.path.dirname(path)) in ("claim", "job", "message", "flow", "schedule"):
            with open(path, "a") as f:
                f.write("-- changed\n")
    # With another argument it is dropped under the sessions that call it.
    path = os.path.join(place, "sql", "functions", "flow", "__settle_due.sql")
    edit(
        path,
        r"function deferred\.__settle_due\(\) returns",
        "function deferred.__settle_due(more int default 0) returns",
    )
    edit(path, r"on function deferred\.__settle_due\(\)", "on function deferred.__settle_due(int)")
    return releases.make(place)


def newest():
    return max(int(name[:4]) for name in os.listdir(os.path.join(pg.TOP, "sql", "migrations")) if name[0].isdigit())


def edit(path, pattern, text):
    with open(path) as f:
        old = f.read()
    new, n = re.subn(pattern, text, old)
    assert n == 1, (path, pattern)
    with open(path, "w") as f:
        f.write(new)


def works(build, db):
    """Whether programs of a build work with the schema of the database."""
    code = db.run([os.path.join(build, "bin", "deferred"), "status"]).returncode
    assert code in (0, CONFIG)
    return code == 0


def there_and_back(old, new, n):
    """A plan: migrate, replace programs line by line, go back, and forth again. n runs between two steps."""

    def plan(storm):
        yield from storm.work(n)
        yield from storm.migrate(new)
        storm.mixes = True
        storm.fits = works(old, storm.db)
        if not storm.fits:
            yield from storm.replace(storm.lines, new)
            yield from storm.replace_front(new, works=False)
            yield from storm.work(n)
            return
        yield from storm.work(n)  # old programs on the new schema
        half = storm.lines[::2]
        yield from storm.replace(half, new)
        yield from storm.work(n)  # side by side
        yield from storm.replace(storm.lines, new, takeover=True)
        yield from storm.replace_front(new)
        yield from storm.work(n)
        yield from storm.replace(half, old, takeover=True)  # back
        yield from storm.replace_front(old)
        yield from storm.work(n)
        yield from storm.replace(storm.lines, old)
        yield from storm.migrate(old)
        yield from storm.work(n)
        yield from storm.replace(half, new)  # before the migration, where the version of the schema is the same
        yield from storm.work(n)
        yield from storm.migrate(new)
        yield from storm.replace(storm.lines, new)
        yield from storm.replace_front(new)
        yield from storm.work(n)

    return plan


def then_refuse(plan, old, new, n):
    """After the plan the schema stops fitting the old programs."""

    def longer(storm):
        yield from plan(storm)
        half = storm.lines[::2]
        yield from storm.replace(half, old)
        yield from storm.work(n)
        yield from storm.sql("update deferred.__deferred_migration set oldest = null where version > 1")

        for line in half:
            if not line.loop and line.running():  # under load such a run has no end, and it looks only at its start
                line.running().signal(signal.SIGTERM)
        for line in half:  # services look every 30 s
            yield from storm.until(lambda: line.codes[old, CONFIG])
        yield from storm.replace(half, new)
        yield from storm.work(n)

    return longer


def play(old, new, plan, rng, jobs, kills, monkeypatch):
    """A campaign that begins with the old build. Returns it after the checks that hold for all of them."""
    monkeypatch.setattr(harness, "BUILD", old)
    db = harness.OwnServer(settings={"max_connections": "200", "shared_buffers": "128MB"})
    storm = Upgrade(db, rng, plan, jobs, kills, lambda text: print(text, flush=True))
    try:
        verdict = storm.run()
        total, attempts = verdict.counts["all"], storm.of_builds("attempts")
        half, longest, migrating = storm.longest_wait()
        print(
            f"{total['jobs']} jobs, {attempts[old]} attempts by old and {attempts[new]} by new programs that ended, "
            f"{len(storm.faults)} kills, {len(storm.families)} families, {storm.seconds:.0f} s; lost {total['lost']}, "
            f"accepted twice {total['accepted twice']}, overlapping {total['overlapping']}, stuck {total['stuck']}, "
            f"run twice {total['run twice']}; a producer waited {half:.3f} s, at most {longest:.2f} s, "
            f"at most {migrating:.2f} s during a migration; exit codes {dict(storm.of_builds('codes'))}"
        )
        if old != pg.BUILD:  # a worker of 0.1.0 leaves the steps of a job that it ends: docs/how-to/upgrade.md
            left = [v for v in verdict.violations if v[0].startswith("I11: a job with steps") and "done" in v[2]]
            total["contradictions"] -= len(left)
        assert verdict.wrong() == 0, (
            total,
            verdict.violations,
            [j for j in verdict.jobs if j["verdict"][0] not in ("ok", "dead")][:5],
        )
        assert storm.disorder(verdict.runs) == [] and storm.missing_ticks() == []
        assert storm.deadlocks == [], "a migration made deferring fail"
        assert storm.families and attempts[old] > 0 and attempts[new] > 0
    finally:
        storm.give_up()
        db.close()
    return storm


@pytest.mark.slow
@pytest.mark.by_hand
def test_old_programs_work_beside_new_ones_until_a_migration_ends_that(next_build, seed, monkeypatch):
    n = 1500 if LONG else 60
    plan = then_refuse(there_and_back(pg.BUILD, next_build, n), pg.BUILD, next_build, n)
    storm = play(pg.BUILD, next_build, plan, random.Random(seed), 10 * n, 120 if LONG else 4, monkeypatch)
    first, back, forth = (said for _, said, _ in storm.migrations)
    assert f"migration {newest() + 1}: next" in first and "functions and views" in first
    assert "newer than this program, which works with it" in back and "nothing to do" in forth
    assert storm.of_builds("codes")[next_build, CONFIG] == 0


@pytest.mark.skipif(not LONG, reason="for make check-upgrade, which builds a release")
@pytest.mark.by_hand
def test_the_last_release_is_upgraded(seed, monkeypatch):
    old = releases.build(releases.releases()[-1])
    storm = play(old, pg.BUILD, there_and_back(old, pg.BUILD, 1500), random.Random(seed), 15000, 120, monkeypatch)
    assert storm.of_builds("codes")[pg.BUILD, CONFIG] == 0
    assert storm.of_builds("codes")[old, CONFIG] == 0 or not storm.fits


SHOP = """from deferred import function

@function("order")
def order(params, job):
    return job.step("charge", lambda: 7)

@function("count", batch=5, batch_wait="100ms")
def count(jobs):
    return [len(jobs)] * len(jobs)
"""


@pytest.mark.skipif(not LONG, reason="for make check-upgrade, which builds a release")
@pytest.mark.by_hand
def test_what_workers_of_0_1_0_do_with_features_of_0_2_0(monkeypatch, tmp_path):
    """The table of docs/how-to/upgrade.md, on the schema of 0.2.0."""
    old = releases.build(next(r for r in releases.releases() if r.version == "0.1.0"))
    monkeypatch.setattr(harness, "BUILD", old)
    db = harness.OwnServer()
    try:
        db.plugins()
        (tmp_path / "shop.py").write_text(SHOP)
        path = f"PYTHONPATH={pg.TOP}/lib/languages/python:{tmp_path}"
        command = f'{{"/usr/bin/env", "{path}", "/usr/bin/python3", "-B", "-m", "deferred", "shop"}}'
        functions = "".join(f'function "{name}" {{ program = "shop" }}\n' for name in ("order", "count"))
        db.config(f'program "shop" {{ command = {command} }}\n{functions}')
        assert db.run([os.path.join(pg.BUILD, "bin", "deferred"), "migrate"]).returncode == 0

        def work(build):
            done = db.run([os.path.join(build, "bin", "check_deferred"), "--cnt", "0"])
            assert done.returncode == 0, done.stderr

        def ended(job):
            log = "select outcome, coalesce(result, error) from deferred.__deferred_log where job_id = %s"
            return db.sql(log + " order by attempt", job)

        runs = {"key": "a", "key_until": "end"}, {"wait_for": {"event": "paid"}}, {}
        plain = [db.defer("echo", "1", **opts) for opts in runs]
        db.sql("select deferred.update(%s, '{\"params\": 2}')", plain[0])
        db.sql("select deferred.send_event('paid', '1')")
        counts = [db.defer("count") for _ in range(3)]
        order = db.defer("order", max_attempts=1)
        http = db.defer("http", '{"url": "http://127.0.0.1:1/"}', max_attempts=1)
        work(old)
        assert [ended(job)[0][0] for job in plain] == ["ok"] * 3
        assert [ended(job) for job in counts] == [[("ok", "1")]] * 3
        assert "older than 0.2.0 and saves no steps" in ended(order)[0][1]
        assert ended(http) == []

        monkeypatch.setattr(harness, "BUILD", pg.BUILD)
        db.plugins()
        db.sql("select deferred.retry(%s)", order)
        work(pg.BUILD)
        assert ended(order)[-1] == ("ok", "7") and ended(http)[0][0] == "failed"
    finally:
        db.close()
