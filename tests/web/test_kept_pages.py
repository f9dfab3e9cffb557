"""The pages that say what `deferred doctor` and `deferred advise` print: the same words, for each
right, worked out once a minute, while other pages go on."""

import copy
import html
import http.client
import json
import random
import re
import threading
import time

import psycopg2
import pytest

import harness
from made_log import history, write_log

pytestmark = pytest.mark.by_hand
RIGHTS = ("vic", "rea", "opal")
ONLY_BY_COMMAND = ["config", "connection", "user", "pidfile", "spool", "plugins", "mail", "listen", "certificates"]


def command(db, name, web=None, who=None):
    """What the command says as JSON, to one of those who have a login."""
    options = ["--db", f"{db.conninfo} user={web.login(who)} password='{web.PASSWORD}'"] if who else []
    return json.loads(db.run(["deferred", *options, "--json", name]).stdout)


def text_of(page):
    return html.unescape(re.sub(r"<[^>]*>", " ", page[page.index("<main") : page.index("</main>")]))


def asked(web, path, who="opal"):
    """An answer that is there, however long it takes. On a busy machine the first one may be that it took too long."""

    def answer():
        status, _, text = web.ask(path, who)
        return status == 200 and '"error":' not in text and json.loads(text)

    return harness.wait_for(answer, 600, "an answer of " + path)


def test_all_is_well_for_each_right(web, db):
    for who in RIGHTS:
        told = web.json("/doctor.json", who)
        # fsync is off for these tests, which is a warning by itself.
        assert [c["check"] for c in told["checks"] if c["status"] != "ok"] == ["durability"], told
        assert told["worst"] == "warn" and told["no_time"] == [], told
        assert told["only_by_command"] == ONLY_BY_COMMAND
        assert [c["check"] for c in told["checks"]] == [
            c["check"] for c in command(db, "doctor") if c["check"] not in ONLY_BY_COMMAND
        ]
        page = web.page("/doctor", who)
        assert (
            "0 failures, 1 warning and 0 unknown in 16 checks." in page
            and page.count("<h1>") == 1
            and page.count("is-ok") == 15
            and ", certificates. It also checks parts of role" in re.sub("</?b>", "", page)
        )
    for path in ("/doctor", "/doctor.json", "/advice", "/advice.json"):
        assert (
            web.ask(path, "nob")[0] == 403
            and web.ask(path, None)[0] == 401
            and web.ask(path, method="POST", form={})[0] == 405
        )
    assert '<a href="/doctor">Doctor</a>' in web.page("/") and '<a href="/advice" aria-current="page">' in web.page(
        "/advice"
    )


def test_what_is_found_is_what_the_command_finds_and_is_kept_for_its_role(web, db):
    db.defer("nosuch")
    db.sql("select deferred.schedule('nightly', '0 3 * * *', 'noop')")
    db.sql(
        "update deferred.__deferred_schedule set last_what = 'failed', last_error = '<script>alert(1)</script>', "
        "last_at = now() - interval '30 hours'"
    )
    told = web.json("/doctor.json")
    wrong = {c["check"]: c for c in told["checks"] if c["status"] != "ok"}
    by_command = {c["check"]: c for c in command(db, "doctor", web, "opal") if c["status"] != "ok"}
    assert set(wrong) == {"functions", "schedules", "durability"} <= set(by_command) and told["worst"] == "fail"
    assert {k: wrong["schedules"][k] for k in ("what", "why", "do")} == {
        k: by_command["schedules"][k] for k in ("what", "why", "do")
    }
    assert (
        wrong["functions"]["do"] == by_command["functions"]["do"]
        and "is unknown: no worker has stored yet what it offers" in wrong["functions"]["what"]
    )
    page = web.page("/doctor")
    assert (
        "2 failures, 1 warning and 0 unknown in 16 checks." in text_of(page) and "deferred cancel --fn nosuch" in page
    )
    # Why a schedule fails is its owner's, so the page does not tell it either.
    assert "alert(1)" not in page + web.page("/doctor", "vic")
    db.sql("delete from deferred.__deferred_schedule")
    assert web.json("/doctor.json") == told and web.page("/doctor") == page
    assert {c["check"] for c in web.json("/doctor.json", "rea")["checks"] if c["status"] != "ok"} == {
        "functions",
        "durability",
    }


def test_a_lock_or_a_right_that_is_missing_leaves_the_other_checks(web, db):
    db.defer("noop")
    other = psycopg2.connect(db.conninfo)
    with other.cursor() as cursor:
        cursor.execute("lock deferred.__deferred_hot in access exclusive mode")
        began = time.monotonic()
        told = {c["check"]: c for c in web.json("/doctor.json")["checks"]}
        assert time.monotonic() - began < 3
    other.close()
    for name in ("functions", "workers"):
        assert told[name]["status"] == "unknown" and "lock timeout" in told[name]["what"]
    assert told["schema"]["status"] == told["partitions"]["status"] == told["alerts"]["status"] == "ok"
    db.sql("revoke select on deferred.__deferred_alert from deferred_viewer")
    told = {c["check"]: c for c in web.json("/doctor.json", "vic")["checks"]}
    assert (
        told["alerts"]["status"] == "unknown"
        and told["alerts"]["do"] == f'grant deferred_viewer to "{web.login("vic")}"'
        and told["schedules"]["status"] == "ok"
    )


def test_a_schema_of_another_program_is_told_and_no_more_is_asked_of_it(web, db):
    db.sql("delete from deferred.__deferred_source where name = 'functions/cancel'")
    told = web.json("/doctor.json")["checks"]
    assert (
        told[0]["check"] == "schema"
        and told[0]["status"] == "warn"
        and told[0]["do"] == "deferred migrate"
        and len(told) == 16
    )


def test_too_little_is_known_for_advice(web, db):
    for who in RIGHTS:
        told = asked(web, "/advice.json", who)
        assert (
            told["page"] == "advice"
            and told["advice"] == command(db, "advise")
            and told["advice"]["answer"] == "too_little"
        )
    page = web.page("/advice", "vic")
    assert (
        "too little is known for a promise: the log has 0 attempts" in page
        and "starts have to come at least each 126s" in page
        and page.count("<h1>") == 1
    )


def test_advice_is_that_of_the_command_one_for_all_viewers(web, db):
    rng = random.Random(3)
    write_log(db, history(rng, 0.5, lambda r: 4.0, 2), "mail")
    write_log(db, history(rng, 0.1, lambda r: 10.0, 2), "images")
    told = asked(web, "/advice.json", "vic")
    by_command = command(db, "advise", web, "vic")
    (line,) = told["advice"]["lines"]
    assert line == re.sub(r"root   \S*/check_deferred", "root   check_deferred", by_command["lines"][0])
    # The time from which the log is read is another one, by the moment between.
    near = {k: v for k, v in by_command.items() if k not in ("lines", "arrive_now_hour", "waits")}
    assert {k: told["advice"][k] for k in near} == {
        k: pytest.approx(v, rel=0.02) if isinstance(v, float) else v for k, v in near.items()
    }
    assert [w["queue"] for w in told["advice"]["waits"]] == [w["queue"] for w in by_command["waits"]]
    page = web.page("/advice")
    shown = text_of(page)
    assert (
        html.escape(line) in page
        and "promise" in shown
        and "95 % of the jobs of each queue start within" in shown
        and "served" in shown
        and "at most" in shown
        and "assumes" in shown
    )
    assert page.count("<td>mail</td>") == page.count("<td>images</td>") == page.count("<td>all</td>") == 1
    assert web.json("/advice.json", "rea") == told  # worked out once
    for paths in (["/advice", "/advice.json"], ["/doctor", "/doctor.json"]):
        for path in paths:
            _, headers, _ = web.ask(path)
            assert web.ask(path, If_None_Match=headers["ETag"])[0] == 304, path
    assert db.sql("select from deferred.__deferred_action") == []


def test_advice_begins_with_what_the_lines_of_today_give(web, db):
    """Where workers of the last day tell by which they were started."""
    write_log(db, history(random.Random(3), 0.5, lambda r: 4.0, 2), "mail")
    db.sql(
        "insert into deferred.__deferred_worker (instance, host, pid, version, started_at, seen_at, ended_at, cnt, "
        "runners, mode) "
        "select 'a:/run/d.pid#1.1@1', 'a', 1, '1', t, t, t, 3, 1, 'run' "
        "from generate_series(now() - interval '3 hours', now(), interval '5 min') t"
    )
    by_command = command(db, "advise")["today"]
    told = asked(web, "/advice.json", "vic")["advice"]["today"]
    assert (
        told["lines"] == by_command["lines"] == ["*/5 * * * * --cnt 3 --runners 1 --if-running=skip"]
        and told["given"] is False
    )
    assert [told[k] for k in ("share_s", "longest_s")] == [
        pytest.approx(by_command[k], rel=0.02) for k in ("share_s", "longest_s")
    ]
    shown = text_of(web.page("/advice"))
    assert re.search(
        r"today\s+95 % of the jobs start within \S+, the longest wait is \S+, in a replay of the log with the crontab "
        r"lines of the last day\s+" + re.escape(told["lines"][0]),
        shown,
    ), shown
    assert shown.index("today") < shown.index("Crontab lines")


def test_metrics_are_worked_out_once_for_all_who_may_read_them(web, db):
    """The second of two within five seconds is answered though the figures are locked away, to
    those alone who may have them."""
    while True:
        began = time.monotonic()
        first = web.page("/metrics", "vic")
        other = psycopg2.connect(db.conninfo)
        with other.cursor() as cursor:
            for table in ("sum", "series", "depth", "limit", "worker"):
                cursor.execute(f"lock deferred.__deferred_{table} in access exclusive mode")
            second, opened = web.ask("/metrics", "opal"), web.ask(
                "/metrics", "rea", Accept="application/openmetrics-text; version=1.0.0"
            )
            refused = [web.ask("/metrics", who)[0] for who in ("nob", None)] + [
                web.ask("/metrics", "vic", password="x")[0]
            ]
        other.close()
        if time.monotonic() - began < 5:
            break
    assert second[::2] == (200, first) and second[1]["Content-Type"].startswith("text/plain")
    assert (
        opened[0] == 200
        and opened[1]["Content-Type"].startswith("application/openmetrics-text")
        and opened[2].endswith("\n# EOF\n")
    )
    names = [set(re.findall(r"(?m)^# HELP (\w+)", text.replace("_total ", " "))) for text in (first, opened[2])]
    assert names[0] == names[1]
    assert refused == [403, 401, 401]
    moment = re.search(r"(?m)^deferred_metrics_timestamp_seconds .*", first)[0]
    # A viewer reads the sums as workers left them.
    harness.wait_for(
        lambda: db.run(["deferred", "fold"]).returncode == 0 and moment not in web.page("/metrics", "vic"),
        30,
        "they are computed again",
    )


def test_who_asks_for_metrics_while_they_are_worked_out_waits_for_them(start_web, db):
    web = start_web("db_connections = 8")
    answers, ready = [], threading.Barrier(8)

    def scrape():
        own = copy.copy(web)
        own.connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)
        ready.wait()
        answers.append(own.ask("/metrics", "vic")[::2])
        own.connection.close()

    threads = [threading.Thread(target=scrape) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and {status for status, _ in answers} == {200} and len({text for _, text in answers}) == 1


def test_metrics_that_cannot_be_had_are_not_kept(web, db):
    db.sql("alter table deferred.__deferred_depth rename to gone")
    status, headers, text = web.ask("/metrics", "vic")
    assert status == 503 and "The figures are not available now." in text and "deferred_jobs" not in text
    db.sql("alter table deferred.gone rename to __deferred_depth")
    assert "deferred_jobs_deferred_total" in web.page("/metrics", "vic")


def test_pages_for_looking_only_have_them_too(start_web, db):
    looking = start_web("auth = none")
    found = looking.json("/doctor.json", None)["checks"]
    assert [c["check"] for c in found if c["status"] != "ok"] == ["durability"]
    assert asked(looking, "/advice.json", None)["advice"]["answer"] == "too_little"
    reading = start_web("read_only = 1")
    assert "0 failures, 1 warning" in reading.page("/doctor") and "too little is known" in reading.page("/advice")


def test_other_pages_go_on_while_advice_is_worked_out(start_web, db):
    """With two threads for pages; one is with who asked first, and for a moment only."""
    rng = random.Random(5)
    write_log(db, history(rng, 12, lambda r: r.expovariate(1 / 6), 2 if harness.SAN else 3, 20))
    web = start_web("db_connections = 2")
    first, answers, pages = copy.copy(web), [], []
    first.connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)
    asking = threading.Thread(target=lambda: answers.append(first.ask("/advice.json", "vic")))
    asking.start()
    while asking.is_alive():
        began = time.monotonic()
        assert web.json("/queues.json")["page"] == "queues"
        answers.append(web.ask("/advice.json"))
        pages.append(web.ask("/advice"))
        assert time.monotonic() - began < 20
    first.connection.close()
    # Whoever asks first waits for the answer, and nobody else does.
    assert {status for status, _, _ in answers} <= {200, 202}
    _, headers, text = next(answer for answer in answers if answer[0] == 202)
    assert json.loads(text) == {"page": "advice", "under_way": True} and headers["Retry-After"] == "3"
    assert pages != [] and {status for status, _, _ in pages} == {200}
    assert all(headers["Refresh"] == "3" for _, headers, text in pages if "This is being computed" in text)
    # Should that have taken too long, as on a busy machine, there is less to read.
    db.sql("delete from deferred.__deferred_log where finished_at < now() - interval '0.4 days'")
    told = asked(web, "/advice.json")
    assert told["advice"]["attempts"] > 4000 and told == web.json("/advice.json", "vic")


def test_it_ends_while_advice_is_worked_out(start_web, db):
    rng = random.Random(6)
    write_log(db, history(rng, 10, lambda r: r.expovariate(1 / 6), 3, 20))
    web = start_web()
    threading.Thread(target=web.ask, args=["/advice.json"]).start()
    time.sleep(0.3)  # the fixture tells it to stop, and looks how it ends


def test_a_remedy_that_is_a_page_leads_there(web, db):
    db.defer("noop")
    db.sql("update deferred.__deferred_hot set visible_at = now() - interval '2 hours', due_at = null")
    db.sql("update deferred.__deferred set created_at = now() - interval '2 hours'")
    page = web.page("/")
    assert '<code><a href="/doctor">deferred doctor</a>' in page, text_of(page)
    assert any("deferred doctor" in c["do"] for c in web.json("/.json")["why"])
