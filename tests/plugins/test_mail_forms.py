"""Every kind of mail the function can build, read by two parsers that know nothing of it: Python's email package, and
mailparser for Node.js, which npm installs below build/. What they read is held against what was asked for.
"""

import base64
import datetime
import email
import email.header
import email.policy
import email.utils
import hashlib
import itertools
import json
import os
import random
import re
import subprocess

import pytest

import node
import pg

PARSER = os.path.join(pg.TOP, "tests", "plugins", "node")
SERVERS = [("--utf8",), (), ("--seven-bit",), ("--utf8", "--seven-bit")]
CREATED, READY = 1700000000, 1700086400
PICTURE = base64.b64decode("iVBORw0KGgo=")
LETTER = "From: a@b.example\nSubject: inner\n\nhello\n.\n"
# Each with its content in bytes, or None where it is not compared.
FILES = {
    "bytes": (
        {"name": "a.pdf", "content_base64": base64.b64encode(bytes(range(256)) * 30).decode()},
        bytes(range(256)) * 30,
    ),
    "text": ({"name": "Übersicht „Q1“ 100%.log", "content": "ü\n" * 300, "type": "text/x-log"}, "ü\n".encode() * 300),
    "empty": ({"name": 'quo"te\\.csv', "content": ""}, b""),
    "other charset": ({"name": "old.txt", "content_base64": "/A==", "type": "text/plain; charset=ISO-8859-1"}, b"\xfc"),
    "message": ({"name": "forwarded.eml", "content": LETTER}, LETTER.replace("\n", "\r\n").encode()),
    "8-bit message": ({"name": "old.eml", "content": LETTER + "ü\n"}, (LETTER + "ü\n").encode()),
    "long message": (
        {"name": "x", "type": "message/rfc822", "content": LETTER + "x" * 999},
        (LETTER + "x" * 999).encode(),
    ),
    "calendar": ({"name": "invite.ics", "content": "BEGIN:VCALENDAR\r\n"}, b"BEGIN:VCALENDAR\r\n"),
    "path": ({"path": "FILE", "name": "z.bin"}, b"from a file\x00\xff"),
    "message by path": ({"path": "LETTER"}, LETTER.replace("\n", "\r\n").encode()),
    "picture": ({"name": "logo.png", "cid": "logo@app", "content_base64": base64.b64encode(PICTURE).decode()}, PICTURE),
    "second picture": ({"name": "x.gif", "cid": "b", "content_base64": "R0k="}, b"GI"),
}
TYPES = {
    "bytes": "application/pdf",
    "text": "text/x-log",
    "empty": "text/csv",
    "other charset": "text/plain",
    "message": "message/rfc822",
    "8-bit message": "application/octet-stream",
    "long message": "application/octet-stream",
    "calendar": "text/calendar",
    "path": "application/octet-stream",
    "message by path": "message/rfc822",
    "picture": "image/png",
    "second picture": "image/gif",
}
TEXTS = [
    "plain\n",
    "mostly ascii, one ü and a long line " * 30,
    "日本語の本文\n" * 40,
    "x" * 3000,
    "trailing \n.\n..\nFrom here\t\n= =3D\n",
    "",
    "\x07 bell",
    "a\rb\r\nc\nd",
]
NAMES = [
    "Ann",
    "Büro „Nord“",
    'A "B" \\C',
    "x" * 70,
    "=?UTF-8?Q?a?=",
    "日本" * 30,
    "Esq., Jr. (the 3rd) <b>",
    "a" * 60 + " ü",
]
SUBJECTS = ["hello", "Grüße", "日本語の件名" * 30, "=?UTF-8?Q?no?=", "x" * 900, "many words " * 60, "two  spaces"]
INVITATION = "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nSUMMARY:%s\r\nEND:VCALENDAR\r\n"


def mails():
    """All shapes, with texts, names and subjects drawn at random for each: (mail, names of its files)."""
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    plain = [k for k in FILES if "picture" not in k]
    sets = [[], *[[k] for k in FILES], ["picture", "bytes"], ["picture", "second picture", "text", "message"]]
    sets += [draw.sample(list(FILES), 5) for _ in range(4)] + [plain]
    made = []
    for bodies, calendar, files in itertools.product(("text", "html", "both"), (False, True), sets):
        if bodies == "text" and any("picture" in k for k in files):
            continue
        name, other = draw.choice(NAMES), draw.choice(NAMES)
        wide = {"mail": "jörg@x.org", "label": "Jörg"}
        mail = {
            "from": {"mail": "app@example.org", "label": name},
            "to": ["ann@x.org", {"mail": "bob@x.org", "label": other}],
            "cc": wide if draw.random() < 0.3 else "cy@x.org",
            "bcc": ["dee@x.org"],
            "reply_to": '"%s" <help@x.org>' % re.sub(r'(["\\])', r"\\\1", other),
            "subject": draw.choice(SUBJECTS),
            "headers": {"X-Order": draw.choice(SUBJECTS[:3])},
            "attachments": [FILES[k][0] for k in files],
        }
        if bodies != "html":
            mail["text"] = draw.choice(TEXTS)
        if bodies != "text":
            mail["html"] = "<p>" + draw.choice(TEXTS)
        if calendar:
            mail["calendar"] = INVITATION % draw.choice(["Fest", "größer" * 30])
        made.append((mail, files))
    draw.shuffle(made)
    return seed, made


def form(mail, files):
    """The nested types that the mail is to have."""
    shown, others = [k for k in files if "picture" in k], [k for k in files if "picture" not in k]
    html = ["multipart/related", "text/html", *[TYPES[k] for k in shown]] if shown else "text/html"
    bodies = (
        (["text/plain"] if "text" in mail else [])
        + ([html] if "html" in mail else [])
        + (["text/calendar"] if "calendar" in mail else [])
    )
    body = bodies[0] if len(bodies) == 1 else ["multipart/alternative", *bodies]
    return ["multipart/mixed", body, *[TYPES[k] for k in others]] if others else body


def shape(part):
    if part.get_content_maintype() != "multipart":
        return part.get_content_type()
    return [part.get_content_type(), *map(shape, part.iter_parts())]


def leaves(part):
    if part.get_content_maintype() != "multipart":
        return [part]
    return [leaf for p in part.iter_parts() for leaf in leaves(p)]


def lines(text):
    """Line ends do not matter, nor does one at the end of a mail."""
    return re.sub("\r\n|\r|\n", "\n", text).rstrip("\n")


def content(leaf):
    """Bytes. Python parses a message within the mail anew, and so has its source only by writing it again."""
    if leaf.get_content_type() == "message/rfc822":
        return leaf.get_payload(0).as_bytes(policy=email.policy.SMTP.clone(refold_source="none"))
    return leaf.get_payload(decode=True)


def people(raw, header):
    """Python's newer parser leaves a blank between two encoded words of a name (python/cpython#92081)."""
    found = email.utils.getaddresses(email.message_from_string(raw.decode()).get_all(header, []))
    return [[str(email.header.make_header(email.header.decode_header(name))), mail] for name, mail in found if mail]


def asked(mail, field, utf8):
    """Names and addresses that the header is to show."""
    found = []
    for a in mail[field] if isinstance(mail[field], list) else [mail[field]]:
        a = a if isinstance(a, dict) else {"mail": a, "label": ""}
        found += [[a["label"], a["mail"]]] if utf8 or a["mail"].isascii() else []
    return found


def check_bytes(raw, utf8):
    """What servers require of any mail."""
    head = raw.partition(b"\r\n\r\n")[0]
    assert b"\n" not in raw.replace(b"\r\n", b"") and b"\r" not in raw.replace(b"\r\n", b"") and b"\0" not in raw
    assert max(map(len, raw.split(b"\r\n"))) <= 998
    assert max(len(line) for line in head.split(b"\r\n") if not line.startswith(b"Content-Type:")) <= 998
    assert raw.isascii() or (utf8 and raw[len(head) :].isascii())


def check_by_python(raw, mail, files, utf8):
    got = email.message_from_bytes(raw, policy=email.policy.default)
    assert [p.defects for p in got.walk() if p.defects] == []
    assert shape(got) == form(mail, files)
    assert got["subject"] == mail["subject"] and got["x-order"] == mail["headers"]["X-Order"]
    assert got["date"].datetime == datetime.datetime.fromtimestamp(READY, datetime.timezone.utc)
    assert got["message-id"] == f"<deferred.7.{CREATED}000000@example.org>"
    for field in ("from", "to", "cc"):
        assert people(raw, field) == asked(mail, field, utf8)
    assert people(raw, "reply-to") == [[mail["to"][1]["label"], "help@x.org"]]
    assert b"dee@x.org" not in raw
    parts = leaves(got)
    bodies = [p for p in parts if not p.get_filename()]
    for leaf in bodies:
        member = {"text/plain": "text", "text/html": "html", "text/calendar": "calendar"}[leaf.get_content_type()]
        assert leaf.get_param("charset") == "UTF-8"
        encoding = leaf["content-transfer-encoding"]
        assert encoding in ("7bit", "quoted-printable", "base64")
        if encoding != "7bit":
            assert max(map(len, leaf.get_payload().splitlines() or [""])) <= 76
        assert lines(leaf.get_payload(decode=True).decode()) == lines(mail[member])
        assert leaf.get_param("method") == ("REQUEST" if member == "calendar" else None)
    found = {p.get_filename(): p for p in parts if p.get_filename()}
    for name in files:
        file, want = FILES[name]
        leaf = found.pop(file.get("name", "letter.eml"))
        assert leaf.get_content_type() == TYPES[name] and content(leaf) == want, name
        assert leaf["content-transfer-encoding"] == ("7bit" if TYPES[name] == "message/rfc822" else "base64")
        assert leaf.get_content_disposition() == ("inline" if "cid" in file else "attachment")
        assert leaf["content-id"] == (f"<{file['cid']}>" if "cid" in file else None)
        if "content" in file and TYPES[name].startswith("text/"):
            assert leaf.get_param("charset") == "UTF-8"
    assert found == {}
    return [(p.get_content_type(), p.get_param("charset"), p["content-transfer-encoding"]) for p in parts]


def check_by_node(read, mail, files, utf8, parts):
    assert read["shape"] == form(mail, files)
    assert [(t, (c or "").lower(), e) for t, c, e in read["leaves"]] == [(t, (c or "").lower(), e) for t, c, e in parts]
    assert read["subject"] == mail["subject"] and read["own"] == mail["headers"]["X-Order"]
    assert datetime.datetime.fromisoformat(read["date"].replace("Z", "+00:00")).timestamp() == READY
    assert read["id"] == f"<deferred.7.{CREATED}000000@example.org>"
    for field in ("from", "to", "cc"):
        assert read[field] == asked(mail, field, utf8)
    assert read["reply_to"] == [[mail["to"][1]["label"], "help@x.org"]]
    for member in ("text", "html"):
        assert lines(read.get(member) or "") == lines(mail.get(member) or "")
    found = {name: rest for name, *rest in read["files"]}
    for name in files:
        file, want = FILES[name]
        cid, disposition, digest = found.pop(file.get("name", "letter.eml"))
        assert (cid, disposition) == ((file["cid"], "inline") if "cid" in file else (None, "attachment"))
        assert digest == hashlib.sha256(want).hexdigest(), name
    assert list(found) == ([None] if "calendar" in mail else [])


@pytest.fixture
def letters(tmp_path):
    (tmp_path / "z").write_bytes(FILES["path"][1])
    (tmp_path / "letter.eml").write_bytes(LETTER.encode())
    return lambda mail: json.loads(
        json.dumps(mail)
        .replace('"FILE"', json.dumps(str(tmp_path / "z")))
        .replace('"LETTER"', json.dumps(str(tmp_path / "letter.eml")))
    )


def test_two_parsers_read_every_kind_of_mail_as_it_was_asked_for(call, smtpd, letters, tmp_path):
    """Through servers with and without SMTPUTF8 and 8BITMIME, which refuse what was not announced."""
    folder = node.install("mail", PARSER)
    node.scripts(folder, PARSER)
    seed, made = mails()
    for n, options in enumerate(SERVERS):
        server, batch, utf8 = smtpd(*options), made[n :: len(SERVERS)], "--utf8" in options
        outcomes = call(
            "send_mail",
            *[letters(mail) for mail, _ in batch],
            id=7,
            created_at_us=CREATED * 10**6,
            ready_at=READY * 10**6,
            settings={"mail.port": server.port, "mail.attachment_dir": tmp_path},
        )
        assert [o.error for o in outcomes if o.returned != "ok"] == [], f"seed {seed}"
        kept = [os.path.join(server.dir, f"{i}.eml") for i in range(1, len(batch) + 1)]
        done = subprocess.run(
            [node.NODE, os.path.join(folder, "parse.mjs"), *kept], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        for i, (mail, files), read in zip(range(1, len(batch) + 1), batch, done.stdout.splitlines(), strict=True):
            try:
                # Only an envelope that needs SMTPUTF8 has headers with it.
                raw, wide = server.raw(i), utf8 or "jörg" not in json.dumps(mail, ensure_ascii=False)
                check_bytes(raw, wide)
                check_by_node(json.loads(read), mail, files, wide, check_by_python(raw, mail, files, wide))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, server {options}, {mail}\n{server.raw(i)[:3000]}") from error


def test_a_message_within_a_mail_is_not_encoded(call, smtpd):
    """RFC 2046, 5.2.1. Where that cannot be, it goes byte for byte, as a file."""
    server = smtpd("--seven-bit")
    whole = [b"Subject: a\n\nb", b"Subject: a\r\n\r\n" + b"x" * 998 + b"\r\n", b""]
    other = [b"Subject: a\n\n\xfc", b"Subject: a\n\n" + b"x" * 999, b"Subject: a\n\n\0", b"Subject: a\rb\n"]
    mails = [
        {
            "from": "a@b",
            "to": "a@b",
            "text": "t",
            "attachments": [{"name": "a", "content_base64": base64.b64encode(data).decode(), "type": kind}],
        }
        for kind in ("message/rfc822", "Message/RFC822; x=y")
        for data in whole + other
    ]
    assert {o.returned for o in call("send_mail", *mails, settings={"mail.port": server.port})} == {"ok"}
    for n, data in enumerate(2 * (whole + other), 1):
        [part] = server.mail(n).iter_attachments()
        if data in whole:
            assert part.get_content_type() == "message/rfc822" and part["content-transfer-encoding"] == "7bit"
            assert data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") + b"\r\n--" in server.raw(n)
        else:
            assert (
                part.get_content_type() == "application/octet-stream" and part["content-transfer-encoding"] == "base64"
            )
            assert part.get_payload(decode=True) == data
