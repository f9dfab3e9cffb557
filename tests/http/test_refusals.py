"""What deferred_http says, and where, when it lets nobody in: to its operator, to who was refused,
and nothing to strangers."""

import base64
import os
import re
import urllib.parse

import pytest

import front
import harness
import pg
from front import now


def load_accounts_anew(f, times):
    """A request that may be right with accounts newer than those known has them read before it is refused."""
    for _ in range(times):
        assert f.client("stranger", f.KEY).call("GET", "/mail/messages").status == 403


def write_key(path, text):
    with open(path, "w") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)


def errors(f):
    return re.findall(r"error: (accounts: .*)", f.program.output())


@pytest.mark.slow
def test_with_a_wrong_key_file_it_is_not_ready_and_says_why_once(db):
    f = front.Front(db)
    f.add_account("second")
    right = open(f.key_file).read()
    assert f.plain("GET", "/readyz").status == 200
    write_key(f.key_file, base64.b64encode(os.urandom(32)).decode() + "\n")
    got = harness.wait_for(lambda: [g for g in [f.plain("GET", "/readyz")] if g.status == 503], what="not ready")[0]
    assert got.body == b"the key file is not the one of the accounts' keys: the log says more\n"
    assert f.plain("GET", "/healthz").status == 200
    load_accounts_anew(f, 8)
    assert f.client().call("GET", "/mail/messages").status == 403
    assert f.plain("GET", "/readyz").status == 503
    said = errors(f)
    assert len(said) == 1 and f"'{f.key_file}' is another key file" in said[0], said
    # Another trouble is told too, once; then the first again, for it is another than the last.
    write_key(f.key_file, "no key\n")
    harness.wait_for(lambda: len(errors(f)) == 2, what="the second reason")
    got = f.plain("GET", "/readyz")
    assert (got.status, got.body) == (503, b"the accounts cannot be read: the log says why\n")
    write_key(f.key_file, base64.b64encode(os.urandom(32)).decode() + "\n")
    load_accounts_anew(f, 8)
    assert len(errors(f)) == 3 and errors(f)[2] == said[0], errors(f)
    write_key(f.key_file, right)
    harness.wait_for(f.ready, 20)
    assert f.client().create("mail").status == 201
    assert f.stop() == 0, f.program.output()


def test_one_account_whose_keys_cannot_be_read_does_not_stop_the_others(db):
    f = front.Front(db)
    key, _ = f.add_account("second")
    db.sql("update deferred.__deferred_account set key1 = '\\x00', key2 = '\\x01' where name = 'second'")
    harness.wait_for(lambda: f.client("second", key).call("GET", "/?comp=list").status == 403, 20)
    load_accounts_anew(f, 8)
    assert f.client().create("mail").status == 201 and f.plain("GET", "/readyz").status == 200
    said = "key 1 of account 'second' cannot be decrypted, and 1 more; hint: restore the key file"
    assert len(errors(f)) == 1 and said in errors(f)[0], errors(f)
    db.sql("update deferred.__deferred_account set key2 = key1 where name = 'second'")
    load_accounts_anew(f, 3)
    assert len(errors(f)) == 1
    assert f.stop() == 0, f.program.output()


# ---- why a request was refused


WRONG = base64.b64encode(b"w" * 64).decode()


def detail(got):
    assert (got.status, got.code) == (403, "AuthenticationFailed"), got
    return got.xml.findtext("AuthenticationErrorDetail")


def reason(f):
    return f.log()[-1].get("reason")


def answered(client, *args, **how):
    """One request, and the reason that the log has for it, which is written when the answer is out."""
    before = len(client.front.log())
    got = client.call(*args, **how)

    def lines():  # another request's may come first
        return [line for line in client.front.log()[before:] if line["status"] == got.status]

    harness.wait_for(lines)
    return detail(got), lines()[-1].get("reason")


def test_a_refusal_tells_the_text_that_was_to_be_signed(f, c):
    """In each form of signature; as the client itself would have made it."""
    for how in ({}, {"lite": True}, {"version": None}, {"headers": [("x-ms-meta-a", "b & <c>"), ("If-Match", "x")]}):
        date = now()
        sent = c.bytes("GET", "/mail/messages?numofmessages=2&timeout=3", key=WRONG, date=date, **how)
        headers = [
            tuple(line.split(": ", 1))
            for line in sent.decode().split("\r\n\r\n")[0].split("\r\n")[1:]
            if not line.startswith("Auth")
        ]
        text = c.text_to_sign(
            "GET",
            f"/{c.account}/mail/messages?numofmessages=2&timeout=3",
            headers,
            lite="lite" in how or "version" in how,
        )
        said, word = answered(c, "GET", "/mail/messages?numofmessages=2&timeout=3", key=WRONG, date=date, **how)
        assert (
            said
            == (
                "The MAC signature found in the HTTP request is not the same as any computed signature. "
                f"Server used following string to sign: '{text}'."
            )
            and word == "signature"
        )
    bare = {"signed": False, "date": False}
    query = "sv=2021-12-02&ss=q&srt=sco&sp=rl&se=2099-01-01T00:00:00Z&sig="
    said, word = answered(c, "GET", "/?comp=list&" + query + "AAAA", **bare)
    text = f"{c.account}\nrl\nq\nsco\n\n2099-01-01T00:00:00Z\n\n\n2021-12-02\n\n"
    assert (said, word) == (f"Signature did not match. String to sign used was {text}", "signature")


def test_a_refusal_tells_how_far_the_time_is_off(f, c):
    for seconds, words in (
        (
            -1000,
            r"too old: x-ms-date '([^']*)' is (\d+) s behind the server's clock, which is '[^']*'; 900 s are allowed",
        ),
        (
            1000,
            r"too new: x-ms-date '([^']*)' is (\d+) s ahead of the server's clock, which is '[^']*'; 900 s are allowed",
        ),
    ):
        date = now(seconds)
        said, word = answered(c, "GET", "/mail/messages", date=date)
        found = re.search(words, said)
        assert found and found[1] == date and 980 <= int(found[2]) <= 1020 and word == "clock", said
    for how in ({"date": False}, {"date": "yesterday"}):
        said, word = answered(c, "GET", "/mail/messages", **how)
        assert "x-ms-date or Date" in said and word == "clock"


def test_a_refusal_tells_what_is_wrong_with_header_or_token(f, c):
    def token(rest):
        text = "\n".join(
            [
                rest.get("sp", ""),
                rest.get("st", ""),
                rest.get("se", ""),
                f"/queue/{c.account}/mail",
                rest.get("si", ""),
                "",
                rest.get("spr", ""),
                "2021-12-02",
            ]
        )
        return "/mail/messages?peekonly=true&" + urllib.parse.urlencode(
            {"sv": "2021-12-02", **rest, "sig": c.sign(text)}
        )

    bare = {"signed": False, "date": False}
    for path, how, words, expected in (
        (
            "/mail/messages",
            {"signed": False},
            "neither an Authorization header nor a shared access signature",
            "unsigned",
        ),
        (
            "/mail/messages",
            {"signed": False, "headers": [("Authorization", "Bearer x")]},
            f"'SharedKey {c.account}:'",
            "header",
        ),
        ("/mail/messages?sig=x", bare, "malformed: sv", "token"),
        (token({"sp": "r", "se": "2020-01-01"}), bare, "Start [] - Expiry [2020-01-01] - Current [20", "token time"),
        (
            token({"sp": "r", "st": "2098-01-01", "se": "2099-01-01"}),
            bare,
            "Start [2098-01-01] - Expiry [2099-01-01]",
            "token time",
        ),
        (token({"sp": "r", "se": "2099-01-01", "spr": "ftp"}), bare, "spr has to be https or https,http", "token time"),
        (token({"si": "nobody"}), bare, "policy that si names does not exist", "policy"),
    ):
        said, word = answered(c, "GET", path, **how)
        assert words in said and word == expected, (said, word)
    assert c.call("GET", token({"sp": "r", "se": "2099-01-01"}), **bare).status == 200


@pytest.mark.slow
def test_a_refusal_tells_strangers_nothing_but_what_they_sent(f, c, db):
    """An account that is unknown, one that is disabled and a wrong key look the same; the log tells
    them apart. The right signature is nowhere."""
    f.add_account("disabled")
    assert db.run(["deferred", "account", "disable", "disabled"]).returncode == 0
    date, seen = now(), set()
    for name, expected in ((c.account, "signature"), ("stranger", "no account"), ("disabled", "disabled")):
        for path, how in (
            ("/mail/messages", {}),
            ("/none/messages", {"lite": True}),
            ("/mail/messages?sv=2021-12-02&sp=r&se=2099-01-01&sig=AAAA", {"signed": False}),
        ):
            client = f.client(name, WRONG)
            before = len(f.log())
            got = client.call("GET", path, date=date, **how)
            harness.wait_for(lambda: len(f.log()) > before)
            assert reason(f) == expected
            detail(got)
            right = c.sign(
                c.text_to_sign(
                    "GET", f"/{c.account}{path}", [("x-ms-date", date), ("x-ms-version", front.VERSION)], "lite" in how
                )
            )
            assert right not in str(got.headers) + got.body.decode() and right not in open(f.access_log).read()
            head = [(n, v) for n, v in got.headers if n not in ("x-ms-request-id", "Date", "Content-Length")]
            seen.add(
                (
                    path,
                    str(head),
                    re.sub(r"(RequestId|Time):\S+?(?=[<\n])", "", got.body.decode()).replace(name, "NAME"),
                )
            )
    assert len(seen) == 3, seen
    assert f.program.output().count(WRONG) == 0


def test_a_refusal_is_a_document_whatever_was_sent(f, c):
    """Bytes that are no UTF-8, what XML has a meaning for, and more than anybody wants to read."""
    for value in ("\xff\xfe <&>", "\u00c3\u00a4", "]]>", "x" * 12000, "x" * 3900 + "\u00c3\u00a4" * 300):
        got = c.call("GET", "/mail/messages", key=WRONG, headers=[("x-ms-meta-a", value)])
        said = detail(got)
        assert "string to sign" in said and len(got.body) < 8192
    said = detail(c.call("GET", "/mail/messages", key=WRONG, headers=[("x-ms-meta-a", "\u00c3\u00a4 <&>")]))
    assert "\nx-ms-meta-a:\u00e4 <&>\n" in said


def test_the_unit_has_each_request_logged(db):
    """As the service manager would start it, but for where things are."""
    unit = os.path.join(pg.TOP, "cron", "deferred_http.service")
    words = re.search(r"(?m)^ExecStart=(.*)$", open(unit).read())[1].replace("%L", db.dir).split()
    assert os.path.basename(words[0]) == "deferred_http"
    os.mkdir(os.path.join(db.dir, "deferred"))
    f = front.Front(db, *words[1:])
    f.access_log = os.path.join(db.dir, "deferred", "access.log")
    assert f.client().create("mail").status == 201
    line = harness.wait_for(lambda: [x for x in f.log() if x.get("op") == "CreateQueue"])[0]
    assert line["status"] == 201 and line["account"] == f.ACCOUNT
    assert os.stat(f.access_log).st_mode & 0o007 == 0
    assert f.stop() == 0, f.program.output()
