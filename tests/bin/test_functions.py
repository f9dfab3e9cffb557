"""Which functions workers have, and jobs that wait for one that nobody has."""

import json
import os
import re
import shutil
import time

from test_deferred import fails, login, ok, NOT_DONE


def sent(db):
    """How often a worker told what it has."""
    return db.sql("select seen_at from deferred.__deferred_offer order by host, origin")


def test_workers_tell_what_they_have_once_an_hour_and_where_it_changed(db):
    folder = db.plugins("twin_a")
    assert "no worker has stored yet what it offers" in ok(db.run(["deferred", "functions"]))
    db.run(["check_deferred"])
    assert sent(db) == []  # nothing was due
    db.defer("noop")
    db.run(["check_deferred"])
    first = sent(db)
    assert db.sql("select origin, 'twin' = any (fn), 'sample.noop' = any (fn) from deferred.__deferred_offer") == [
        (folder, True, True)
    ]
    db.defer("noop")
    db.run(["check_deferred"])
    assert sent(db) == first  # told within the hour, and the same
    os.unlink(os.path.join(folder, "twin_a.so"))
    db.defer("noop")
    db.run(["check_deferred"])
    changed = sent(db)
    assert (
        len(changed) == 1
        and changed != first
        and db.one("select 'twin' = any (fn) from deferred.__deferred_offer") is False
    )
    db.sql("update deferred.__deferred_offer set seen_at = now() - interval '61 minutes'")
    db.defer("noop")
    db.run(["check_deferred"])
    assert db.one("select seen_at > now() - interval '1 minute' from deferred.__deferred_offer")
    assert db.hot() == 0


def test_a_worker_that_may_not_tell_works_all_the_same(db):
    """And names of folders that are no UTF-8 are told escaped."""
    folder = os.fsencode(db.plugins()) + b"\xff"
    shutil.move(db.env["DEFERRED_PLUGIN_DIR"], folder)
    db.defer("noop")
    assert db.run(["check_deferred"], env={"DEFERRED_PLUGIN_DIR": folder}).returncode == 0 and db.hot() == 0
    assert db.one("select origin from deferred.__deferred_offer").endswith("\\xff")
    where = {"DEFERRED_PLUGIN_DIR": folder}
    db.sql("alter table deferred.__deferred_offer rename plugin to other")
    db.defer("echo")
    done = db.run(["check_deferred", "--cnt", "0"], env=where)
    assert (
        "functions: cannot store what this worker offers" not in done.stderr and db.hot() == 0
    )  # the answer of the registration sufficed
    db.sql("truncate deferred.__deferred_offer")
    db.defer("echo")
    done = db.run(["check_deferred", "--cnt", "0"], env=where)
    assert done.stderr.count("functions: cannot store what this worker offers") == 1
    assert done.returncode == 0 and db.hot() == 0


def test_a_job_whose_function_nobody_has_says_so(db):
    typo, later, good = db.defer("maail"), db.defer("maail", delay="1h"), db.defer("noop", queue="other")
    viewer = login(db, "deferred_viewer")[1]

    def held():
        return [j["held_by"] for j in json.loads(ok(db.run(["deferred", "--json", "ls"], env=viewer)))]

    assert held() == [None, None, None]  # no worker has spoken yet
    assert "no worker offers" not in ok(db.run(["deferred", "status"], env=viewer))
    ran = db.run(["check_deferred", "--cnt", "0"])
    assert "this worker does not offer function 'maail'; left for workers that do" in ran.stderr and db.log(good) == [
        (1, "ok")
    ]
    assert held() == ["function", "function"]
    listed = ok(db.run(["deferred", "ls"]))
    assert "ready (function)" in listed and "delayed (function)" in listed
    for job in (typo, later):
        assert "held by     no worker offers function maail\n" in ok(db.run(["deferred", "show", job]))
    assert json.loads(ok(db.run(["deferred", "--json", "show", typo])))["held_by"] == "function"
    assert "\nno worker offers: maail (2 jobs)\n" in ok(db.run(["deferred", "status"], env=viewer))
    (unknown,) = json.loads(ok(db.run(["deferred", "--json", "status"])))["unknown_functions"]
    assert unknown.pop("oldest_s") < 60 and unknown == {"fn": "maail", "jobs": 2, "more": False}
    told = ok(db.run(["deferred", "functions"], env=viewer))
    assert re.search(
        r"\n\njobs wait for functions that no worker offers:\n  maail: 2 jobs, the first deferred \d+s ago\n$", told
    )
    db.sql(
        "update deferred.__deferred_offer set fn = fn || 'maail'::text, plugin = plugin || 'p 1 2'::text, "
        "timeout_ms = timeout_ms || 0::int8, "
        "max_attempts = max_attempts || 0"
    )
    assert held() == ["limit", None]  # set aside
    assert "no worker offers" not in ok(db.run(["deferred", "status"]))


def test_functions_are_listed_with_their_plugins_limits_and_hosts(db):
    db.plugins("stamp")
    db.config('function "resize" { command = {"/bin/true"}  timeout = "10s"  max_attempts = 3 }\n')
    ok(db.run(["deferred", "function", "set", "resize", "--max-running", "4", "--rate", "5/s"]))
    ok(db.run(["deferred", "function", "set", "ghost", "--max-running", "1"]))
    db.defer("noop")
    db.run(["check_deferred"])
    for i in range(4):
        db.sql(
            "insert into deferred.__deferred_offer select 'host' || %s, origin, catalog, now() - interval '2 days', "
            "fn, plugin, timeout_ms, max_attempts "
            "from deferred.__deferred_offer where origin like '%%deferred.conf' and host not like 'host_'",
            i,
        )
    told = {f["fn"]: f for f in json.loads(ok(db.run(["deferred", "--json", "functions"])))["functions"]}
    assert "sample.noop" not in told
    assert told["noop"]["plugin"] == "sample" and told["noop"]["version"] == "1.0" and len(told["noop"]["build"]) >= 8
    assert {
        k: told["resize"][k]
        for k in ("plugin", "version", "timeout_ms", "max_attempts", "max_running", "rate", "hosts", "seen_s")
    } == {
        "plugin": "command",
        "version": None,
        "timeout_ms": 10000,
        "max_attempts": 3,
        "max_running": 4,
        "rate": 5,
        "hosts": 5,
        "seen_s": told["resize"]["seen_s"],
    }
    assert told["ghost"]["hosts"] == 0 and told["ghost"]["seen_s"] is None
    lines = {line.split()[0]: line.split() for line in ok(db.run(["deferred", "functions"])).splitlines()}
    assert (
        lines["resize"][1:6] == ["command", "10s", "3", "4", "5/s"]
        and lines["resize"][6] == "5"
        and lines["ghost"][-2:] == ["0", "never"]
    )
    assert "sample.noop" in ok(db.run(["deferred", "functions", "sample.noop"]))
    fails(db.run(["deferred", "functions", "maail"]), NOT_DONE, "function 'maail': no worker offers it")
    # Old rows go, and of too many the oldest.
    db.sql("update deferred.__deferred_upkeep set repaired_at = '-infinity'")
    db.sql("update deferred.__deferred_offer set seen_at = now() - interval '36 days' where host = 'host1'")
    db.sql("select deferred.maintain()")
    assert db.one("select count(*) from deferred.__deferred_offer") == 4
    db.sql("update deferred.__deferred_upkeep set repaired_at = '-infinity'")
    db.sql(
        "insert into deferred.__deferred_offer select 'many' || i, '', 1, now() - interval '1 hour', '{}', '{}', "
        "'{}', '{}' from generate_series(1, 998) i"
    )
    db.sql("select deferred.maintain()")
    assert (
        db.one("select count(*) from deferred.__deferred_offer") == 1000
        and db.one("select count(*) from deferred.__deferred_offer where host = 'host2'") == 0
    )


def test_a_start_with_a_queue_misspelt_says_so_where_jobs_wait_elsewhere(db):
    args = ["check_deferred", "--queue", "maail,mail"]
    assert db.run(args).stderr == ""
    db.defer("noop", queue="mail", delay="1h")
    assert db.run(args).stderr == ""
    db.defer("noop", queue="other")
    done = db.run(args)
    assert (
        done.returncode == 0
        and done.stderr.count("warning: queue 'maail' does not exist yet") == 1
        and "'mail'" not in done.stderr
    )


def test_a_table_that_somebody_has_locked_holds_up_no_job(db):
    db.defer("noop")
    holder = db.connect()
    holder.cursor().execute("lock table deferred.__deferred_offer in share mode")
    started = time.monotonic()
    done = db.run(["check_deferred"])
    assert done.returncode == 0 and db.hot() == 0, done
    assert "functions: cannot store what this worker offers" in done.stderr, done
    assert time.monotonic() - started < 3
    holder.close()
