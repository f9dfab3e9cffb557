"""What deferred(7) has one type is typed, and what it shows is what is shown; its BACKUP AND
RESTORE is in tests/sql/test_cursor.py."""

import glob
import os
import re

import pg
from documents import literal, read, section, typed
from harness import BUILD, SAN

__test__ = not SAN  # of programs whose own tests run under the sanitizers


def shell(db, name):
    """Types a section of deferred(7). What each command printed, and what is shown below it."""
    env = {"PATH": os.path.join(BUILD, "bin") + ":/usr/bin:/bin"}
    for command, shown in [
        step for block in literal(section(read("lib", "deferred.7"), name)) for step in typed(block)
    ]:
        done = db.run(["bash", "-c", command], env=env)
        assert done.returncode == 0 and done.stderr == "", (command, done.stderr)
        yield command, done.stdout, shown


def test_the_queues_and_limits_of_the_overview_are_set(db):
    *_, (last, table, _) = shell(db, "QUEUES AND LIMITS")
    assert last == "deferred queue ls" and re.search(r"(?m)^mail +paused ", table), table
    assert db.sql(
        "select name, paused, rate, burst, max_running, weight::float, max_length, on_full, ttl_ms "
        "from deferred.__deferred_queue order by name"
    ) == [
        ("bulk", False, None, None, None, 0.2, 10000, "drop", 2 * 86400000),
        ("default", False, None, None, None, 1, None, "error", None),
        ("mail", True, 1 / 60, 3, None, 1, None, "error", None),
        ("video", False, None, None, 2, 1, None, "error", None),
    ]
    assert db.sql("select name, max_running from deferred.__deferred_function") == [("resize", 4)]
    assert db.sql("select fn, concurrency_key from deferred.__deferred") == [("sync", "cust-7")]


def test_the_rule_of_the_overview_makes_jobs(db):
    db.sql(
        """create schema app; create table app.document (id int, changed_at timestamptz);
              insert into app.document select n, now() - interval '4 years'
              from generate_series(1, 3) n; insert into app.document values (4, now())"""
    )
    *_, (_, printed, shown) = shell(db, "RULES")
    assert re.sub(r"[\d.]+", "0", printed) == re.sub(r"[\d.]+", "0", "\n".join(shown) + "\n") and "3 queued" in printed
    assert db.sql("select fn, key, params from deferred.__deferred order by id") == [
        ("archive_row", f"document-{n}", {"table": "document", "id": n, "key": f"document-{n}"}) for n in (1, 2, 3)
    ]


def test_the_status_of_the_overview_is_that_of_such_jobs(db):
    ends = (
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at) "
        "values (%s, 1, %s, true, now() - %s::interval, now() - %s::interval)"
    )
    for queue, ready in (("bulk", 3), ("mail", 2), ("default", 3)):
        jobs = [db.defer("noop", queue=queue) for _ in range(ready)]
    db.hold(jobs[-1])
    for _ in range(2):
        db.defer("noop", delay="1h")
    for outcome, age in (
        ("failed", "3 days"),
        ("failed", "2 hours"),
        ("failed", "2 hours"),
        ("failed", "1 minute"),
        *[("ok", "1 minute")] * 3,
    ):
        job = db.defer("noop")
        db.sql("delete from deferred.__deferred_hot where id = %s", job)
        db.sql(ends, job, outcome, age, age)
    db.sql("insert into deferred.__deferred_worker (instance, host, pid, version) values ('x', 'h', 1, '0')")
    db.sql("update deferred.__deferred_queue set paused = name = 'bulk', rate = case name when 'mail' then 1 end")
    page = section(read("lib", "deferred.7"), "TROUBLESHOOTING")
    printed = re.sub(
        r"(?m)^durability: none: .*\n", "", db.run(["deferred", "status"]).stdout
    )  # fsync is off here, as on few servers
    assert re.sub(r" \ds", " s", printed) == re.sub(r" \ds", " s", literal(page)[0])
    # And all commands that it names can be given; here `job` has ended well, and the one before it is dead.
    commands = re.findall(r"(?m)^\.Ql (deferred .*?)(?: [.,:;]| No .*)?$", page)
    assert len(commands) >= 10
    for command in commands:
        words = [
            {"QUEUE": "bulk", "ID": job - 3 if " retry " in command else job}.get(word, word)
            for word in command.split()
        ]
        done = db.run(words)
        if words[1] in ("advise", "simulate"):  # which say how much they want to have seen, or have said
            assert done.returncode == 1 and "attempts" in done.stdout + done.stderr
            continue
        assert done.returncode == 0 and done.stderr == "", (words, done.stderr)


def told():
    """All the programs, the library and the functions in SQL can say, and what is quoted of the server."""
    text = "".join(
        read(p)
        for d, kind in (("lib", "*.c"), ("bin", "*.c"), ("sql", "*.sql"))
        for p in sorted(glob.glob(os.path.join(pg.TOP, d, "**", kind), recursive=True))
    )
    text += (
        "canceling statement due to lock timeout\nterminating connection due to administrator command\nidle in "
        "transaction for\n"
    )
    return re.sub(r'"\s*(?:\\\n\s*)?"', "", text).replace('\\"', '"')


def test_what_the_pages_say_that_the_log_and_doctor_say_is_in_the_code():
    text, phrases = told(), []
    for page, name in (
        ("lib/deferred.7", "CHECKING AN INSTALLATION"),
        ("bin/check_deferred/check_deferred.1", "DIAGNOSTICS"),
    ):
        for block in literal(section(read(page), name)):
            message = re.sub(r"\s+", " ", re.sub(r"\n(?=\S)|\n +(?=\w+:)", ";", block))
            # What is put in at run time: numbers, names, one of two ends of a sentence.
            phrases += [
                p.strip()
                for p in re.split(
                    r"""[;:,."(){}=]|\S*\d\S*|'[^']*'|\b(?:resize|mail|maail|s|which|held by|it waits for)\b""", message
                )
            ]
    phrases = [p for p in phrases if p.count(" ") >= 2]
    assert len(phrases) > 20 and [p for p in phrases if p not in text] == []


def test_what_one_sees_when_it_is_late_is_what_is_shown():
    """Words that a symptom quotes; headings of tables among them."""
    text = told() + read("lib", "base", "job.h")
    quoted = [
        words.replace("\\(dq", '"')
        for tag in re.findall(r"(?m)^\.It (.*)", section(read("lib", "deferred.7"), "TROUBLESHOOTING"))
        for words in re.findall(r"\bLi (.*?)(?= ,| No |$)", tag)
    ]
    assert len(quoted) >= 8
    for words in quoted:
        for part in re.findall(r'[\w ]+', words.replace("'maail'", ";")):
            assert part.strip() in text, words
