"""What an account of deferred_http may have called: functions that it was given, and no others, by whatever way."""

import contextlib
import json
import os

import psycopg2
import pytest

import front
import harness
from front import XML

OK, NOT_GIVEN = 0, 11


@pytest.fixture
def f(db):
    started = front.Front(db)
    yield started
    assert started.stop() == 0, started.program.output()


@pytest.fixture
def c(f):
    client = f.client()
    yield client
    client.close()


def account(db, verb, *args):
    done = db.run(["deferred", "account", verb, front.Front.ACCOUNT, *args])
    assert done.returncode == 0, done


def bind(c, queue, fn, name="deferredfunction", comp=""):
    return c.call("PUT", f"/{queue}{comp}", headers=[("x-ms-meta-" + name, fn)] if fn else [])


def refused(got):
    """It says what is missing, and who is to do what about it."""
    assert (got.status, got.code) == (403, "InsufficientAccountPermissions"), got
    assert "deferred account allow ACCOUNT FUNCTION" in got.xml.findtext("Message")


def bound(db, queue):
    found = db.sql("select fn from deferred.__deferred_queue where name = %s", f"{front.Front.ACCOUNT}.{queue}")
    return found[0][0] if found else "no queue"


def test_a_stranger_writes_no_file_through_a_function_that_nobody_gave_him(c, db):
    """The attack: any account bound its queue to sample.append, and wrote where the worker may."""
    target = os.path.join(db.dir, "authorized_keys")
    for name in ("deferred_function", "deferredfunction", "DEFERREDFUNCTION"):
        refused(bind(c, "attack", "append", name))
        c.create("plain")
        refused(bind(c, "plain", "append", name, "?comp=metadata"))
    assert (bound(db, "attack"), bound(db, "plain")) == ("no queue", None)
    assert c.call("POST", "/attack/messages", XML.format("x")).code == "QueueNotFound"
    c.put("plain", json.dumps({"path": target, "line": "ssh-rsa mine"}))
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert not os.path.exists(target) and db.hot() == 1


def test_a_function_that_was_given_is_called_and_no_other(c, db):
    account(db, "allow", "echo", "mail.*")
    assert bind(c, "calls", "echo").status == 201
    c.put("calls", '{"a": 1}')
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.sql("select outcome, result from deferred.__deferred_log") == [("ok", '{"a": 1}')]
    for other in ("append", "echo.more", "ech", "Echo", "mail", "mailer.send", "mail_", "sample.echo"):
        refused(bind(c, "other", other))
        refused(bind(c, "calls", other, comp="?comp=metadata"))
    assert bind(c, "mails", "mail.send").status == 201 and bind(c, "more-mails", "mail.send.all").status == 201
    assert (bound(db, "calls"), bound(db, "mails"), bound(db, "other")) == ("echo", "mail.send", "no queue")


def test_what_one_account_was_given_is_not_the_other_ones(f, c, db):
    key, _ = f.add_account("stranger")
    account(db, "allow", "echo")
    assert bind(c, "calls", "echo").status == 201
    refused(bind(f.client("stranger", key), "calls", "echo"))


def test_when_a_function_is_taken_away_puts_are_refused_and_what_was_put_still_runs(c, db):
    account(db, "allow", "echo")
    bind(c, "calls", "echo")
    first = c.put("calls", '["before"]')
    account(db, "disallow", "echo")
    refused(c.call("POST", "/calls/messages", XML.format("after")))
    # The receipt of the put is good still, but for taking it back only: other params would be another call.
    path = f"/calls/messages/{first['MessageId']}?popreceipt={first['PopReceipt']}&visibilitytimeout=0"
    refused(c.call("PUT", path, XML.format("changed")))
    again = c.call("PUT", path, b"")
    assert again.status == 204
    refused(bind(c, "calls", "echo"))
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.sql("select outcome, result from deferred.__deferred_log") == [("ok", '["before"]')]
    # Without the binding the queue is one of messages.
    assert bind(c, "calls", None, comp="?comp=metadata").status == 204
    c.put("calls", "a message")
    account(db, "allow", "echo")
    assert bind(c, "calls", "echo", comp="?comp=metadata").status == 204
    second = c.put("calls", '["again"]')
    assert (
        c.call(
            "PUT",
            f"/calls/messages/{second['MessageId']}?popreceipt={second['PopReceipt']}&visibilitytimeout=0",
            XML.format("changed"),
        ).status
        == 204
    )
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.sql("select result from deferred.__deferred_log order by job_id desc limit 1") == [('"changed"',)]
    harness.ledger(db)


def test_a_queue_that_an_operator_bound_takes_messages_only_for_what_was_given(c, db):
    c.create("calls")
    assert db.run(["deferred", "queue", "set", front.Front.ACCOUNT + ".calls", "--function", "echo"]).returncode == 0
    refused(c.call("POST", "/calls/messages", XML.format("x")))
    account(db, "allow", "echo")
    c.put("calls", "x")
    assert c.call("GET", "/calls?comp=metadata").header("x-ms-meta-deferredfunction") == "echo"


def test_the_role_of_the_front_does_not_get_around_it_by_sql(db):
    """Who takes over deferred_http has its role, and sends what it likes."""
    db.sql("insert into deferred.__deferred_account (name, key1, key2, functions) values ('acct', '', '', '{echo}')")
    db.sql("select deferred.__queue_set('mail', '{\"fn\": \"send_mail\"}', true)")
    db.sql("select deferred.__queue_set('acct.mail', '{\"fn\": \"send_mail\"}', true)")
    db.sql("create role front_login login in role deferred_http")
    try:
        with contextlib.closing(db.connect(user="front_login")) as connection:
            connection.autocommit = True
            cursor = connection.cursor()

            def ask(query, *args):
                cursor.execute(query, args)
                return cursor.fetchone()[0]

            for queue in ("acct.calls", "calls", "nobody.calls", ".calls", "acct", "mail", "acct.mail"):
                assert (
                    ask("select deferred.__message_queue_create(%s, '{\"deferredfunction\": \"append\"}')", queue)
                    == NOT_GIVEN
                )
            for queue in (
                "calls",
                "nobody.calls",
                ".calls",
                "acct",
            ):  # what is given, is given to queues of the account
                assert (
                    ask("select deferred.__message_queue_create(%s, '{\"deferredfunction\": \"echo\"}')", queue)
                    == NOT_GIVEN
                )
            assert ask("select deferred.__message_queue_create('acct.echo', '{\"deferredfunction\": \"echo\"}')") == OK
            for queue in ("mail", "acct.mail"):
                assert (
                    ask("select deferred.__message_queue_metadata(%s, '{\"deferred_function\": \"append\"}')", queue)
                    == NOT_GIVEN
                )
                assert (
                    ask("select status from deferred.__message_put(array[%s], array['{}'], array[0], array[0])", queue)
                    == NOT_GIVEN
                )
            for query in (
                "select deferred.__account_allow('acct', array['append'])",
                "select deferred.__account_disallow('acct', array[]::text[])",
                "select deferred.__account_may('acct.mail', 'append')",
                "update deferred.__deferred_account set functions = '{append}'",
                "update deferred.__deferred_queue set fn = 'append'",
                "select deferred.__queue_set('acct.mail', '{\"fn\": \"append\"}')",
                "insert into deferred.__deferred_hot (id, queue, fn) values (1, 'acct.mail', 'append')",
                "select deferred.defer('append')",
            ):
                with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                    ask(query)
            # A function in somebody's search path decides nothing.
            with pytest.raises(psycopg2.Error):
                ask(
                    "create function deferred.__account_may(queue text, fn text) returns boolean "
                    "language sql as 'select true'"
                )
        assert (
            db.sql("select fn from deferred.__deferred_queue where fn is not null order by 1")
            == [("echo",), ("send_mail",), ("send_mail",)]
            and db.hot() == 0
        )
    finally:
        db.sql("drop role front_login")
