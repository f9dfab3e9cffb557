"""Mail from the queue to the server: rows X7 to X9 of the fault matrix, and number 17 of the original's defects.

What one call of send_mail does is tested in tests/plugins/test_send_mail.py; here: what becomes of the job.
"""

import email
import email.policy
import glob
import json
import os

import pytest

import pg
from harness import ledger, wait_for

QUICK = 'backoff_floor = "1ms"\nbackoff_ceiling = "1ms"\n'


class Post:
    """A real SMTP server, and mails sent to it by way of the queue."""

    def __init__(self, db, slow=30):
        self.db, self.dir = db, os.path.join(db.dir, "mail")
        os.mkdir(self.dir)
        server = db.spawn(
            [
                "/usr/bin/python3",
                "-B",
                os.path.join(pg.TOP, "tests", "harness", "smtpd.py"),
                "--port",
                "0",
                "--dir",
                self.dir,
                "--slow",
                str(slow),
            ]
        )
        said = wait_for(lambda: "PORT " in server.output() and server.output(), 20)
        self.port = int(said.split("PORT ")[1].split()[0])
        self.config()

    def config(self, text=QUICK, mail=""):
        self.db.config(
            f'{text}mail {{\n host = "127.0.0.1"\n port = {self.port}\n from = "app@example.org"\n{mail}}}\n'
        )

    def defer(self, to, opts=None, **params):
        return self.db.defer(
            "send_mail", json.dumps({"to": to, "subject": "s", "text": "t\n", **params}), **(opts or {})
        )

    def defer_named(self, name):
        """To a recipient of that name, which tells the server what to answer; from one if it begins with "from"."""
        if name.startswith("from"):
            return self.defer("ann@example.org", **{"from": f"{name}@example.org"})
        return self.defer(f"{name}@example.org")

    def check(self, *args, code=0):
        done = self.db.run(["check_deferred", "--cnt", "0", *args])
        assert done.returncode == code, done.stderr
        return done

    def drain(self):
        wait_for(lambda: self.check() and self.db.hot() == 0, 60, "the queue is empty")

    def received(self):
        """Mails kept by the server: (recipients, message)."""
        found = []
        for path in sorted(glob.glob(self.dir + "/*.json"), key=lambda p: int(os.path.basename(p)[:-5])):
            with open(path) as f, open(path[:-5] + ".eml", "rb") as m:
                found.append((json.load(f)["to"], email.message_from_binary_file(m, policy=email.policy.default)))
        return found

    def commands(self):
        with open(os.path.join(self.dir, "commands.log"), "rb") as f:
            return f.read()


@pytest.fixture
def post(db):
    return Post(db)


@pytest.mark.parametrize("name", ["451", "421", "from451", "data452", "drop"])
def test_x7_what_may_pass_is_tried_again(post, name):
    db = post.db
    post.config('backoff_floor = "1h"\n')
    job = post.defer_named(name)
    post.check()
    assert db.log(job) == [(1, "failed")]
    assert db.one("select state from deferred.job where id = %s", job) == "delayed"
    assert post.received() == []
    ledger(db)


@pytest.mark.parametrize("name", ["550", "from550", "data554"])
def test_x7_what_is_refused_for_good_is_dead_with_the_servers_words(post, name):
    db = post.db
    job = post.defer_named(name)
    post.check()
    assert db.log(job) == [(1, "failed")]
    assert db.one("select state from deferred.job where id = %s", job) == "dead"
    assert f"as asked by {name}" in db.one("select error from deferred.__deferred_log where job_id = %s", job)
    assert post.received() == []
    ledger(db)


def test_x7_no_answer_after_the_final_dot_means_the_same_mail_again(post):
    db = post.db
    job = post.defer("dropdata@example.org", {"max_attempts": 3})
    post.drain()
    assert db.log(job) == [(1, "failed"), (2, "failed"), (3, "failed")]
    assert len({m["Message-ID"] for _, m in post.received()}) == 1 and len(post.received()) == 3
    ledger(db)


def test_x7_a_greylisted_mail_arrives_once(post):
    job = post.defer("grey@example.org")
    post.drain()
    assert post.db.log(job) == [(1, "failed"), (2, "ok")]
    assert [to for to, _ in post.received()] == [["grey@example.org"]]
    ledger(post.db)


def test_x7_no_server_at_all(post):
    db = post.db
    db.config('backoff_floor = "1h"\nmail {\n host = "127.0.0.1"\n port = 1\n from = "app@example.org"\n}\n')
    job = post.defer("ann@example.org")
    said = post.check().stderr
    assert "run ended: 0 attempts, 0 ok, 0 failed (0 to be tried again, 0 dead), 1 could not run on this host, " in said
    assert db.log(job) == [(1, "failed")] and db.hot() == 1
    ledger(db)


def test_x7_what_the_operator_has_to_mend_is_waited_for_and_said_once_a_run(post):
    """Neither a setting that is missing nor a server that is away uses up attempts, be it the only one allowed."""
    db, mails = post.db, 3
    jobs = [post.defer("ann@example.org", {"max_attempts": 1}) for _ in range(mails)]
    for text, words in (
        ("", 'mail { from = "you@example.org" }'),
        ('mail {\n from = "app@example.org"\n port = 1\n}\n', "mail { host = "),
    ):
        db.config('backoff_floor = "10min"\n' + text)
        said = post.check().stderr
        assert said.count("cannot run on this host") == 1 and words in said, said
        assert "not counted as an attempt" in said, said
        # Each attempt makes the next wait longer.
        waits = db.one(
            "select array_agg(extract(epoch from due_at - clock_timestamp())::integer) from deferred.__deferred_hot"
        )
        assert all((450 if not text else 900) < wait <= (600 if not text else 1200) for wait in waits), waits
        db.sql("update deferred.__deferred_hot set due_at = clock_timestamp(), visible_at = clock_timestamp()")
    assert [db.log(job) for job in jobs] == [[(1, "failed"), (2, "failed")]] * mails
    post.config()
    post.check()
    assert db.hot() == 0 and len(post.received()) == mails
    ledger(db)


def test_x7_a_server_that_does_not_answer_meets_the_time_limit(post):
    db = post.db
    post.config('backoff_floor = "1h"\n', 'timeout = "1s"\n')
    job = post.defer("slow@example.org")
    post.check()
    assert db.log(job)[0][1] in ("failed", "timeout") and db.hot() == 1
    ledger(db)


def test_x8_accepted_recipients_never_get_a_second_copy(post):
    db = post.db
    good = [f"n{i}@example.org" for i in range(4)]
    post.defer(
        [good[0], "550@example.org", good[1], "grey@example.org", good[2], "451@example.org", good[3]],
        {"max_attempts": 4},
    )
    for _ in range(12):
        post.check()
        db.sql(
            "update deferred.__deferred_hot set due_at = clock_timestamp(), visible_at = clock_timestamp() "
            "where due_at is not null"
        )
    copies = [r for to, _ in post.received() for r in to]
    assert sorted(copies) == sorted(good + ["grey@example.org"])
    assert len({m["Message-ID"] for _, m in post.received()}) == 1
    ledger(db)


@pytest.mark.parametrize(
    "params",
    [
        {"to": "ann@example.org\r\nRCPT TO:<evil@example.org>"},
        {"to": [{"mail": "ann@example.org", "label": "Ann\r\nBcc: evil@example.org"}]},
        {"to": "ann@example.org>\r\nRSET"},
        {"to": "ann@example.org", "subject": "s\r\nBcc: evil@example.org"},
        {"to": "ann@example.org", "from": "x@example.org\nRSET"},
        {"to": "ann@example.org", "reply_to": "x@example.org\rRSET"},
        {"to": "ann@example.org", "cc": "\0evil@example.org"},
        {"to": "ann@example.org", "attachments": [{"path": "/etc/hostname", "name": "a\r\nX-Evil: 1"}]},
    ],
)
def test_x9_line_breaks_in_headers_and_addresses_are_refused(post, params):
    job = post.db.defer("send_mail", json.dumps({"subject": "s", "text": "t", **params}).replace("\\u0000", "\\u0001"))
    post.check()
    assert post.db.log(job) == [(1, "failed")]
    assert post.db.one("select state from deferred.job where id = %s", job) == "dead"
    assert post.received() == []
    assert not os.path.exists(post.dir + "/commands.log") or b"evil" not in post.commands()
    ledger(post.db)


# ---- number 17 of the original's defects, part by part


def test_defect_17_success_is_logged_after_the_server_accepted_the_mail(post):
    good, bad = post.defer("ann@example.org"), post.defer("550@example.org")
    post.check()
    assert post.db.log(good) == [(1, "ok")] and post.db.log(bad) == [(1, "failed")]
    assert [to for to, _ in post.received()] == [["ann@example.org"]]
    ledger(post.db)


def test_defect_17_no_data_is_sent_when_every_recipient_was_refused(post):
    post.defer("550@example.org")
    post.check()
    assert b"RCPT TO" in post.commands() and b"DATA" not in post.commands()
    ledger(post.db)


def test_defect_17_a_body_cannot_end_a_mime_part(post):
    for _ in range(2):
        post.defer("ann@example.org", text="t", html="<p>h</p>")
    post.check()
    boundaries = {m.get_boundary() for _, m in post.received()}
    assert len(boundaries) == 2 and None not in boundaries
    ledger(post.db)


def test_defect_17_attachments_go_only_after_success(post):
    path = post.db.dir + "/file.txt"
    with open(path, "w") as f:
        f.write("content\n")
    job = post.defer("grey@example.org", attachments=[{"path": path, "type": "text/plain", "delete_after_send": True}])
    post.config('backoff_floor = "1h"\n', mail=f' attachment_dir = "{post.db.dir}"\n')
    post.check()
    assert post.db.log(job) == [(1, "failed")] and os.path.exists(path)
    post.db.sql("update deferred.__deferred_hot set due_at = clock_timestamp(), visible_at = clock_timestamp()")
    post.check()
    assert post.db.log(job) == [(1, "failed"), (2, "ok")]
    assert not os.path.exists(path)
    ((_, message),) = post.received()
    assert [p.get_content() for p in message.iter_attachments()] == ["content\n"]
    ledger(post.db)


@pytest.mark.slow
def test_a_producer_gets_no_file_of_the_functions_user_by_mail(post):
    """Nor has one removed: not the worker's own .pgpass, not by way of a link, a folder above,
    another name, or /proc."""
    db, folder = post.db, post.db.dir + "/out"
    os.mkdir(folder)
    secret = db.dir + "/.pgpass"
    with open(secret, "w") as f:
        f.write("db:5432:app:root:secret\n")
    os.symlink(db.dir, folder + "/up")
    os.symlink(secret, folder + "/link")
    os.link(secret, folder + "/hard")
    paths = [
        secret,
        folder + "/../.pgpass",
        folder + "/up/.pgpass",
        folder + "/link",
        folder + "/hard",
        "/proc/self/environ",
        "/proc/self/root" + secret,
        folder + "2/a",
    ]
    for allowed in ("", f' attachment_dir = "{folder}"\n'):
        post.config(mail=allowed)
        jobs = [post.defer("eve@example.org", attachments=[{"path": p, "delete_after_send": True}]) for p in paths]
        post.check()
        errors = dict(db.sql("select job_id, error from deferred.__deferred_log where job_id = any(%s)", jobs))
        assert len(errors) == len(jobs) and all("mail.attachment_dir" in e for e in errors.values()), errors
        assert {s for s, in db.sql("select state from deferred.job where id = any(%s)", jobs)} == {"dead"}
    assert post.received() == [] and os.path.exists(secret) and os.path.exists(folder + "/hard")
    ledger(db)


@pytest.mark.slow
def test_what_takes_the_place_of_a_sent_file_stays(db):
    """The name is looked at again when the mail has gone out, minutes later perhaps."""
    post, path = Post(db, slow=3), db.dir + "/file.txt"
    with open(path, "w") as f:
        f.write("content\n")
    post.config(mail=f' attachment_dir = "{post.db.dir}"\n')
    post.defer("slow@example.org", attachments=[{"path": path, "delete_after_send": True}])
    run = post.db.spawn(["check_deferred"])
    wait_for(
        lambda: os.path.exists(post.dir + "/commands.log") and b"RCPT" in post.commands(),
        20,
        "the file has been opened",
    )
    with open(path + ".new", "w") as f:
        f.write("another\n")
    os.rename(path + ".new", path)
    assert run.wait() == 0
    assert [p.get_content() for p in post.received()[0][1].iter_attachments()] == ["content\n"]
    with open(path) as f:
        assert f.read() == "another\n"
    assert "another file has its place" in run.output()
    ledger(post.db)


def test_a_mail_deferred_by_the_library_is_delivered(post):
    """The demo's program: an application that calls deferred_send_mail()."""
    demo = os.path.join(os.environ.get("DEFERRED_BUILD", "build"), "tests", "demo", "demo")
    post.config(mail="defer = 1\n")
    done = post.db.run([os.path.join(pg.TOP, demo), "zoe@example.org"])
    assert done.returncode == 0, done.stderr
    post.check()
    assert post.db.log(int(done.stdout)) == [(1, "ok")]
    ((to, message),) = post.received()
    assert to == ["zoe@example.org"] and message["Subject"] == "Deferred from C — grüße"
    assert [p.get_content_type() for p in message.iter_parts()] == ["text/plain", "text/html"]
    ledger(post.db)


def test_a_mail_is_not_dated_before_it_was_due(post):
    """Nor one that waited for another job."""
    db = post.db
    delayed = post.defer("ann@example.org", {"delay": "2s"})
    parent = db.defer("sample.noop", delay="2s")
    post.defer("bob@example.org", {"after": [parent]})
    post.drain()
    due = dict(
        db.sql(
            "select 'ann@example.org', run_at from deferred.__deferred where id = %s union all "
            "select 'bob@example.org', max(finished_at) from deferred.__deferred_log where job_id = %s",
            delayed,
            parent,
        )
    )
    dates = {to: mail["Date"].datetime for [to], mail in post.received()}
    assert set(dates) == set(due)
    for to, date in dates.items():
        assert date >= due[to].replace(microsecond=0), to
    ledger(db)
