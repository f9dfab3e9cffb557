"""One list of mails, good and bad, given to SQL, to C and to the plugin: they agree on which can be sent."""

import base64
import json
import os
import random

import psycopg2
import psycopg2.extras
import pytest

import harness

MAIL = {"from": "app@example.org", "to": "ann@x.org", "subject": "s", "text": "t"}
INVITATION = "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nEND:VCALENDAR\r\n"
# Each member of a mail: values that can be sent, and values that cannot.
ADDRESSES = (
    [
        "ann@x.org",
        "Ann <ann@x.org>",
        "<a@b>",
        '"A, \\"B\\"" <a@b>',
        "ä@x.org",
        "a@ü.org",
        "Jörg <a@b.org>",
        "a@[1.2.3.4]",
        "a.b+c@x-y.org",
        "a@b_c",
        "x" * 64 + "@x.org",
        "A <<a@b>",
    ],
    [
        "",
        "ann",
        "@x.org",
        "ann@",
        "a b@x.org",
        "ann@x.org>",
        "<ann@x.org",
        "ann@x.org,bob@x.org",
        "ann@.org",
        ".ann@x.org",
        "ann.@x.org",
        "a..b@x.org",
        "a" * 65 + "@x.org",
        "ann@" + "x" * 260,
        "ann@x.org SIZE=1",
        '"a"@x.org',
        "ann@[1.2",
        "a@[]",
        "a@[",
        "a@b@c",
        "A <a@b>>",
        "a@b.",
        "ä@x.org\u0085",
        "Ann\x1b <a@b>",
        "a@x.org\r\nBcc: eve@x.org",
        "A\nB <a@b>",
    ],
)
LISTS = (
    [[a] for a in ADDRESSES[0]] + [["ann@x.org", "bob@x.org"], "ann@x.org"],
    [["ann@x.org", a] for a in ADDRESSES[1]] + [["ann@x.org", None]],
)
LINES = (
    ["", "s", "Grüße", "x" * 2000, "=?UTF-8?Q?a?=", "a  b"],
    ["a\nb", "a\r\nBcc: eve@x.org", "a\x1bb", "a\x7f", "a\u0085b"],
)
HEADERS = (
    [
        {},
        {"Auto-Submitted": "auto-generated"},
        {"X-A": "ü", "x-b": "1"},
        {"References": " ".join(["<a@b>"] * 200)},
        {f"X-{i}": "x" for i in range(50)},
        {"X-" + "a" * 48: "x"},
    ],
    [
        {"Bcc": "eve@x.org"},
        {"X-A": ""},
        {"X-A": "x" * 2001},
        {"X-A": "a\r\nBcc: e@x.org"},
        {"References": "<ü@x>"},
        {"X-A": "1", "x-a": "2"},
        {f"X-{i}": "x" for i in range(51)},
        {"": "x"},
        {"X-A:": "x"},
        {"X-ü": "x"},
        {"X-" + "a" * 49: "x"},
        {"X-Spam-Status": "no"},
        {"X-SMTPAPI": "x"},
        {"List-Id": " "},
        {"X-A": None},
        {"X-A": 5},
    ],
)
FILE = {"name": "a.txt", "content": "x"}
FILES = (
    [
        [],
        [FILE],
        [{"name": "ü.csv", "content": ""}],
        [{"name": "x" * 255, "content": "x"}],
        [{**FILE, "type": ""}],
        [{**FILE, "type": "text/x-log; charset=UTF-8"}],
        [{**FILE, "type": 'application/x; a=b; c="d e;"'}],
        [{**FILE, "type": "message/rfc822"}],
        [{**FILE, "cid": "a.b_c@d+e-f"}],
        [{**FILE, "cid": None, "type": None}],
        [{**FILE, "delete_after_send": True}],
        [{**FILE, "delete_after_send": None}],
        [{"path": "FILE"}],
        [{"path": "FILE", "name": ""}],
        [{"path": "FILE", "name": "b", "type": "text/plain; charset=latin1"}],
        [{**FILE, "type": "text/plain; charset=\"utf-8\""}],
    ]
    + [[{"name": "a", "content_base64": text}] for text in ("", "eA==", "eA", "eHg=", "eH\r\ng=", "eHh4")],
    [
        [{**FILE, "name": "a/b"}],
        [{"content": "x"}],
        [{**FILE, "name": ""}],
        [{**FILE, "name": "x" * 256}],
        [{**FILE, "name": "a\nb"}],
        [{**FILE, "type": "a/b\r\nBcc: e@x.org"}],
        [{**FILE, "path": "/a"}],
        [{"name": "a"}],
        [{"path": "a.txt"}],
        [{"path": "/"}],
        [{"path": ""}],
        [{**FILE, "cid": ""}],
        [{**FILE, "cid": "a b"}],
        [{**FILE, "cid": "ü"}],
        [{**FILE, "cid": "x" * 201}],
        [{**FILE, "cid": "a"}, {**FILE, "cid": "a"}],
        [5],
        [None],
        ["a"],
        [{**FILE, "name": 5}],
        [{**FILE, "content": 5}],
        [{"name": "a", "content": None}],
        [{**FILE, "delete_after_send": "true"}],
        [{**FILE, "delete_after_send": 1}],
        [{**FILE, "file": "x"}],
        [{**FILE, "content_base64": "eA=="}],
        [{**FILE, "type": "text/plain; charset=latin1"}],
        [{**FILE, "type": "text/plain;charset=\"utf-8x\""}],
        [{**FILE, "type": "text/plain; charset=utf-8x"}],
        [{"path": "FILE", "name": "a\u0085"}],
        {},
        "x",
    ]
    + [
        [{**FILE, "type": kind}]
        for kind in (
            "text",
            "/plain",
            "text/",
            "multipart/mixed",
            "Multipart/x",
            "message/partial",
            "message/external-body",
            "text/plain;",
            "text/plain; charset",
            "text/plain; a=\"b",
            "te xt/plain",
            "text/plain x",
            "a/b; c=d e",
            "ü/b",
            "a/" + "b" * 130,
            "a/b; =c",
        )
    ]
    + [
        [{"name": "a", "content_base64": text}]
        for text in ("a", "eA==x", "e A==", "é", "eA-_", "aaaaa", "eA=", "eA===", "eHh4=", "=", "eHg==", "eA==\r\neA==")
    ],
)
GRAMMAR = {
    "to": LISTS,
    "cc": LISTS,
    "bcc": LISTS,
    "from": ADDRESSES,
    "subject": LINES,
    "headers": HEADERS,
    "attachments": FILES,
    "reply_to": (
        [a for a in ADDRESSES[0] if a.isascii() or a.startswith("J")],
        ADDRESSES[1] + ["ä@x.org", "Ann <a@ü.org>"],
    ),
    "message_id": (
        ["a@b", "<a@b>", "x" * 125 + "@" + "y" * 124],
        ["", "a", "@b", "a@", "a@b@c", "a b@c", "<a@b", "ü@b", "x" * 125 + "@" + "y" * 125, "a@b\r\nBcc: e@x.org"],
    ),
    "calendar": (
        [INVITATION, INVITATION.replace("\r", ""), INVITATION.lower(), INVITATION.replace("REQUEST", "CANCEL")],
        [
            "",
            "x",
            "METHOD:REQUEST",
            INVITATION.replace("METHOD:REQUEST\r\n", ""),
            "X" + INVITATION,
            INVITATION.replace("REQUEST", "REQUEST; x=y"),
            INVITATION.replace("REQUEST", ""),
            INVITATION.replace("REQUEST", "X" * 21),
            INVITATION.replace("METHOD", "X-METHOD"),
        ],
    ),
    "text": ([None, "", "t", "a\x1b\r\n.\r\n"], []),
    "html": ([None, "<p>", ""], []),
}
ORDER = (
    "to",
    "subject",
    "text",
    "html",
    "from",
    "cc",
    "bcc",
    "reply_to",
    "headers",
    "attachments",
    "message_id",
    "calendar",
)

MEMBERS = {"path", "name", "type", "content", "cid", "delete_after_send"}  # of a file, in C


def mailbox(text):
    """As the C interface takes it."""
    if not text or not text.endswith(">") or "<" not in text:
        return [text, None]
    label, _, mail = text[:-1].rpartition("<")
    return [mail, label.rstrip(" ") or None]


def for_c(mail, folder):
    """None: the C interface cannot say that."""
    files = mail.get("attachments", [])
    if "message_id" in mail or not isinstance(files, list) or not isinstance(mail.get("headers") or {}, dict):
        return None
    for file in files:
        if (
            not isinstance(file, dict)
            or not set(file) <= MEMBERS
            or not all(
                value is None or isinstance(value, bool if key == "delete_after_send" else str)
                for key, value in file.items()
            )
            or ("content" in file and ("path" in file or "charset" in (file.get("type") or "")))
        ):
            return None
    if (
        any(not isinstance(text, (str, type(None))) for text in (mail.get("headers") or {}).values())
        or len(mail.get("headers") or {}) > 16
        or mail.get("reply_to") == ""
        or mail.get("from") == ""
    ):
        return None
    said = {
        key: [mailbox(a) for a in ([mail[key]] if isinstance(mail[key], str) else mail[key])]
        for key in ("to", "cc", "bcc")
        if mail.get(key)
    }
    said.update({key: mailbox(mail[key]) for key in ("from", "reply_to") if key in mail})
    return {**mail, **said}


@pytest.fixture
def verdicts(db, call, smtpd, tmp_path):
    """verdicts(mails) -> [(SQL, C, plugin)]: True: it can be sent; None: it cannot be said there."""
    server = smtpd("--utf8")
    (tmp_path / "file.txt").write_text("x")
    db.config('mail { defer = 1 }\n')

    def sql(mail):
        values = [
            [mail["to"]] if isinstance(mail.get("to"), str) else mail.get("to"),
            *[mail.get(key) for key in ORDER[1:]],
        ]
        for i in (5, 6):
            values[i] = [values[i]] if isinstance(values[i], str) else values[i]
        for i in (8, 9):
            values[i] = None if values[i] is None else psycopg2.extras.Json(values[i])
        try:
            db.sql(
                """select deferred.send_mail(%s::text[], %s, %s, %s, "from" => %s, cc => %s, bcc => %s, reply_to => %s,
                      headers => %s, attachments => %s, message_id => %s, calendar => %s)""",
                *values,
            )
        except psycopg2.errors.InvalidParameterValue:
            return False
        return True

    def all_of(mails):
        mails = json.loads(json.dumps(mails).replace('"FILE"', json.dumps(str(tmp_path / "file.txt"))))
        in_c = [for_c(mail, tmp_path) for mail in mails]
        done = db.run(
            [os.path.join(harness.BUILD, "tests", "harness", "mail_call"), *[json.dumps(m) for m in in_c if m]]
        )
        assert done.returncode == 0, done.stderr
        codes = [json.loads(line) for line in done.stdout.split("\n") if line]
        assert {c["code"] for c in codes} <= {0, -1}, codes
        c_says = iter([c["code"] == 0 for c in codes])
        sent = call("send_mail", *mails, settings={"mail.port": server.port, "mail.attachment_dir": tmp_path})
        assert {o.returned for o in sent} <= {"ok", "dead"}, [o.error for o in sent]
        return [(sql(mail), next(c_says) if c else None, o.returned == "ok") for mail, c, o in zip(mails, in_c, sent)]

    return all_of


def differing(mails, found, expected=None):
    return [
        (mail, verdict)
        for mail, verdict in zip(mails, found)
        if len({v for v in verdict if v is not None} | ({expected} if expected is not None else set())) != 1
    ]


@pytest.mark.parametrize("member", GRAMMAR)
def test_sql_c_and_the_plugin_refuse_the_same_mails(verdicts, member):
    for good, values in zip((True, False), GRAMMAR[member]):
        mails = [{**MAIL, "html": "<p>", member: value} for value in values]
        if mails:
            assert differing(mails, verdicts(mails), good) == []


def test_what_a_mail_needs_is_the_same_for_all(verdicts):
    no_to = {k: v for k, v in MAIL.items() if k != "to"}
    mails = [
        no_to,
        {**no_to, "to": []},
        {**no_to, "cc": [], "bcc": []},
        {**MAIL, "text": None},
        {**MAIL, "attachments": [{**FILE, "cid": "a"}]},
        {**MAIL, "text": None, "attachments": [FILE]},
        {**MAIL, "text": None, "calendar": INVITATION},
    ]
    assert differing(mails, verdicts(mails), False) == []
    mails = [{**no_to, "bcc": ["a@b"]}, {**MAIL, "text": None, "html": ""}, {**MAIL, "text": "", "html": None}]
    assert differing(mails, verdicts(mails), True) == []


def test_random_mails_get_the_same_verdict_everywhere(verdicts):
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    mails = []
    for _ in range(120):
        mail = dict(MAIL)
        for member, (good, bad) in GRAMMAR.items():
            if draw.random() < 0.5:
                mail[member] = draw.choice(bad if bad and draw.random() < 0.07 else good)
        mails.append(mail)
    found = verdicts(mails)
    assert differing(mails, found) == [], f"seed {seed}"
    assert {plugin for _, _, plugin in found} == {True, False}, f"seed {seed}"


def scratched(draw, value):
    """The value with one character put into one of its texts, or taken out."""
    if isinstance(value, str):
        at = draw.randrange(len(value) + 1)
        letter = draw.choice("\"\\<>@.,;:=/ \t\n\x01\x7f\x80\x9f\xa0ü日🎉\u2028[](){}%'*+-_~`^|?!#$&aZ0")
        return value[:at] + draw.choice(["", letter, letter]) + value[at + draw.randrange(2) :]
    if isinstance(value, list) and value:
        at = draw.randrange(len(value))
        return [*value[:at], scratched(draw, value[at]), *value[at + 1 :]]
    if isinstance(value, dict) and value:
        key = draw.choice(list(value))
        if draw.random() < 0.2:
            return {scratched(draw, k) if k == key else k: v for k, v in value.items()}
        return {**value, key: scratched(draw, value[key])}
    return value


def test_mails_with_one_character_changed_get_the_same_verdict_everywhere(verdicts):
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    mails = []
    for _ in range(200):
        member = draw.choice([m for m in GRAMMAR if m not in ("text", "html")])
        mails.append({**MAIL, "html": "<p>", member: scratched(draw, draw.choice(GRAMMAR[member][0]))})
    mails = [mail for mail in mails if '"path"' not in json.dumps(mail)]  # that of another file is the worker's matter
    assert differing(mails, verdicts(mails)) == [], f"seed {seed}"


def test_members_that_are_there_twice_are_refused(db, call, smtpd):
    """Which of them counts is a matter of the parser."""
    for headers, attachments in (
        ('{"X-A": "1", "X-A": "2"}', "[]"),
        ("{}", '[{"name": "a", "name": "b", "content": "x"}]'),
        ("{}", '[{"name": "a", "content": "x", "content": "y"}]'),
    ):
        with pytest.raises(psycopg2.errors.InvalidParameterValue, match="twice"):
            db.sql(
                "select deferred.send_mail('ann@x.org', 's', 't', headers => %s, attachments => %s)",
                headers,
                attachments,
            )
        outcome = call(
            "send_mail",
            '{"from": "a@b", "to": "a@b", "text": "t", "headers": %s, "attachments": %s}' % (headers, attachments),
            settings={"mail.port": smtpd().port},
        )
        assert outcome.returned == "dead" and "duplicate" in outcome.error


def test_text_that_json_alone_can_say_is_refused(db):
    for text in ("\\u0000", "\\ud800", "\\udc00x"):
        for headers, attachments in (
            (f'{{"X-A": "{text}"}}', None),
            (f'{{"X-{text}": "a"}}', None),
            (None, f'[{{"name": "a{text}", "content": "x"}}]'),
            (None, f'[{{"name": "a", "content": "{text}"}}]'),
            (None, f'[{{"name": "a", "content": "x", "{text}": "y"}}]'),
        ):
            with pytest.raises(psycopg2.DataError):
                db.sql(
                    "select deferred.send_mail('ann@x.org', 's', 't', headers => %s, attachments => %s)",
                    headers,
                    attachments,
                )
    assert db.hot() == 0
