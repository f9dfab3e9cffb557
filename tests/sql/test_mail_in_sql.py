"""deferred.send_mail() in SQL, and the label of a mail."""

import json

import psycopg2.errors as pgerror
import pytest

from test_defer import as_role, ask, defer

CALL = "select deferred.send_mail("


def test_a_mail_is_deferred_with_the_rights_and_in_the_transaction_of_the_caller(db):
    producer = as_role(db, "deferred_producer")
    job = ask(producer, CALL + "'Ann <ann@example.org>', 'Grüße', 'hi')")[0][0]
    ask(
        producer,
        CALL
        + """array['ann@x.org', 'bob@x.org'], 'all', html => '<p>', "from" => 'app@x.org',
        cc => array['c@x.org'], bcc => '{d@x.org}',
        reply_to => 'Help <help@x.org>', headers => '{"Auto-Submitted": "auto-generated", "X-Ours": "ü"}',
        attachments => '[{"name": "a", "content": "x"}]', message_id => 'a@b',
        opts => '{"queue": "mail", "delay": "1h", "label": "mine"}')""",
    )
    ask(producer, "begin; " + CALL + "null, 'none', 't', cc => array['c@x.org']); rollback; select 1")
    producer.close()
    assert db.sql(
        "select id, fn, queue, label, created_by::text, params::text::jsonb, run_at is not null "
        "from deferred.__deferred order by id"
    ) == [
        (
            job,
            "send_mail",
            "default",
            "Grüße",
            "deferred_producer",
            {"to": ["Ann <ann@example.org>"], "subject": "Grüße", "text": "hi"},
            False,
        ),
        (
            job + 1,
            "send_mail",
            "mail",
            "mine",
            "deferred_producer",
            {
                "to": ["ann@x.org", "bob@x.org"],
                "subject": "all",
                "html": "<p>",
                "from": "app@x.org",
                "cc": ["c@x.org"],
                "bcc": ["d@x.org"],
                "reply_to": "Help <help@x.org>",
                "headers": {"Auto-Submitted": "auto-generated", "X-Ours": "ü"},
                "attachments": [{"name": "a", "content": "x"}],
                "message_id": "a@b",
            },
            True,
        ),
    ]
    db.sql("insert into deferred.__deferred_grant values ('deferred_producer', null, 'noop')")
    viewer = as_role(db, "deferred_viewer")
    for connection, says in (
        (as_role(db, "deferred_producer"), "role 'deferred_producer' may not defer"),
        (viewer, "permission denied"),
    ):
        with pytest.raises(pgerror.InsufficientPrivilege, match=says):
            ask(connection, CALL + "'ann@x.org', 's', 't')")
        connection.close()
    assert db.hot() == 2


def test_what_cannot_be_sent_is_refused_and_named(db):
    for arguments, says in [
        ("null::text, 's', 't'", "the recipient is missing"),
        ("'{}'::text[], 's', 't'", "the recipient is missing"),
        ("'ann@x.org', 's'", "text and html are both missing"),
        ("'ann', 's', 't'", "to: 'ann' is not a mail address"),
        ("array['ann@x.org', null], 's', 't'", "to: an address is NULL"),
        ("'ann@x.org', 's', 't', cc => array['a b@x.org']", "cc: 'a b@x.org' is not valid before the @"),
        ("'ann@x.org', 's', 't', bcc => array['.b@x.org']", "bcc: "),
        ("'ann@x.org', 's', 't', \"from\" => 'x'", "from: 'x' is not a"),
        ("'ann@x.org', 's', 't', reply_to => 'x@y>'", "reply_to: "),
        ("'ann@x.org,bob@x.org', 's', 't'", "to: "),
        (r"E'Ann\r\nBcc: <eve@x.org>', 's', 't'", "has a control character"),
        (r"'a@x.org', E's\nBcc: eve@x.org', 't'", "subject: has a control"),
        ("'ann@x.org', 's', 't', headers => '[]'", "headers must be a JSON object, but a JSON array"),
        ("'ann@x.org', 's', 't', attachments => '{}'", "attachments must be a JSON array, but a JSON object"),
        ("'ann@x.org', 's', 't', headers => '{\"Bcc\": \"eve@x.org\"}'", "headers: 'Bcc' is not among"),
        ("'ann@x.org', 's', 't', headers => '{\"X-A\": \"a\\r\\nBcc: eve@x.org\"}'", "headers: 'X-A' has a control"),
        ("'ann@x.org', 's', 't', headers => '{\"X-A\": 5}'", "headers: 'X-A' is not text"),
        ("'ann@x.org', 's', 't', opts => '{\"quue\": \"mail\"}'", "option 'quue' is unknown"),
    ]:
        with pytest.raises(pgerror.InvalidParameterValue) as caught:
            db.sql(CALL + arguments + ")")
        assert says in str(caught.value), arguments
    assert db.hot() == 0


def test_a_mail_deferred_by_sql_has_its_subject_as_label(db):
    params = {"to": "ann@x.org", "subject": "s" * 1500}
    for one in (params, {"subject": ""}, {"to": 1}, [1], 5):
        defer(db, "send_mail", json.dumps(one))
    defer(db, "send_mail", '{"subject": "no text holds \\u0000"}')
    defer(db, "send_mail", '{"subject": "s"}', priority=1)
    defer(db, "send_mail", '{"subject": "s"}', label="given")
    defer(db, "f", '{"subject": "s"}')
    db.sql(
        "select deferred.defer_many(%s)",
        json.dumps(
            [
                {"fn": "send_mail", "params": {"subject": "a"}},
                {"fn": "f", "params": {"subject": "b"}},
                {"fn": "send_mail", "params": {"subject": "c"}, "label": "given"},
            ]
        ),
    )
    db.sql(
        """select deferred.__rule_add('mails', $$select 'k' as k, 'ann@x.org' as to, 'by rule' as subject$$,
            'send_mail', '{}', 'k', null, null, '{}',
        60000, '')"""
    )
    assert db.run(["deferred", "rule", "run", "mails"]).returncode == 0
    assert [label for label, in db.sql("select label from deferred.__deferred order by id")] == [
        "s" * 1000,
        None,
        None,
        None,
        None,
        None,
        "s",
        "given",
        None,
        "a",
        None,
        "given",
        "by rule",
    ]
