"""The function send_mail against a real SMTP server: what arrives, who gets it, what each answer leads to."""

import base64
import email
import email.header
import email.utils
import json
import os
import re
import socket
import threading

import pytest

MAIL = {"from": "app@example.org", "to": "ann@example.org", "subject": "hello", "text": "hi\n"}
# None of them is one.
ADDRESSES = [
    "",
    "ann",
    "@x.org",
    "ann@",
    "a b@x.org",
    "ann@x org",
    "ann@x.org>",
    "<ann@x.org",
    "ann@x.org,bob@x.org",
    "ann@.org",
    ".ann@x.org",
    "ann.@x.org",
    "a..b@x.org",
    "ann@x..org",
    ".ä@x.org",
    "ä b@x.org",
    "ann@ü..org",
    "ann@ü/x",
    "a" * 65 + "@x.org",
    "ann@" + "x" * 260,
    "ann@x.org SIZE=1",
    "\"a\"@x.org",
    "ann@[1.2.3.4",
    "ann@x/y",
]


@pytest.fixture
def send(call, smtpd, tmp_path):
    """send(mail, ..., settings={}): through one server of the test's own, which is send.server.
    Files may be sent from tmp_path."""

    def send(*mails, settings=None, **kw):
        return call(
            "send_mail",
            *mails,
            settings={"mail.port": send.server.port, "mail.attachment_dir": tmp_path, **(settings or {})},
            **kw,
        )

    send.server = smtpd("--slow", "5")
    return send


def short(value):
    return ascii(value)[:24]


def content(part):
    value = part.get_content()
    return value.replace("\r\n", "\n") if isinstance(value, str) else value


def display_name(raw, header):
    """Of the first address. Python 3.11's newer parser leaves a space between two encoded words of a name."""
    name, _ = email.utils.parseaddr(email.message_from_bytes(raw)[header])
    return str(email.header.make_header(email.header.decode_header(name)))


def bodies(mail):
    return {part.get_content_type(): content(part) for part in mail.walk() if not part.is_multipart()}


# ---- what arrives


def test_a_plain_mail_arrives_as_it_was_given(send):
    outcome = send(MAIL, id=7, created_at_us=1700000000123456)
    assert outcome.returned == "ok"
    assert outcome.result == f"localhost:{send.server.port} took it for 1 of 1: 250 2.0.0 kept as 1"
    assert send.server.envelopes()[0] | {"peer_port": 0, "helo": ""} == {
        "from": "app@example.org",
        "to": ["ann@example.org"],
        "tls": False,
        "auth": None,
        "peer_port": 0,
        "helo": "",
    }
    mail = send.server.mail()
    assert dict(mail.items()) == {
        "Date": "Tue, 14 Nov 2023 22:13:20 +0000",
        "Message-ID": "<deferred.7.1700000000123456@example.org>",
        "From": "app@example.org",
        "To": "ann@example.org",
        "Subject": "hello",
        "MIME-Version": "1.0",
        "Content-Type": 'text/plain; charset="UTF-8"',
        "Content-Transfer-Encoding": "7bit",
    }
    assert content(mail) == "hi\n"


def test_addresses_come_as_text_with_a_name_as_objects_and_as_lists(send):
    assert (
        send(
            {
                "from": {"mail": "app@example.org", "label": "The App"},
                "to": ["Ann <ann@x.org>", "bob@x.org"],
                "cc": {"mail": "cy@x.org", "label": 'Cy "C", Esq. \\'},
                "bcc": ["dee@x.org", "ANN@x.org", "ann@X.ORG"],
                "reply_to": '"Help, please" <help@x.org>',
                "subject": "s",
                "text": "t",
            }
        ).returned
        == "ok"
    )
    mail = send.server.mail()
    assert send.server.envelopes()[0]["to"] == ["ann@x.org", "bob@x.org", "cy@x.org", "dee@x.org", "ANN@x.org"]
    assert [
        (a.display_name, a.addr_spec)
        for a in mail["from"].addresses + mail["to"].addresses + mail["cc"].addresses + mail["reply-to"].addresses
    ] == [
        ("The App", "app@example.org"),
        ("Ann", "ann@x.org"),
        ("", "bob@x.org"),
        ('Cy "C", Esq. \\', "cy@x.org"),
        ("Help, please", "help@x.org"),
    ]
    assert b"dee@x.org" not in send.server.raw()


def test_a_mail_of_hidden_recipients_only_has_a_valid_to_header(send):
    assert send({**MAIL, "to": [], "bcc": ["dee@x.org"]}).returned == "ok"
    assert send.server.envelopes()[0]["to"] == ["dee@x.org"]
    assert send.server.mail()["to"] == "undisclosed-recipients:;"


@pytest.mark.parametrize(
    "text",
    [
        "Grüße",
        "日本語の件名" * 30,
        "🎉",
        "=?UTF-8?Q?no?=",
        "x" * 900,
        "ascii and then ü at the end of a somewhat longer line of text, folded",
        "many words " * 60,
        "two  spaces   inside",
        " around ",
        "",
    ],
    ids=short,
)
def test_every_text_survives_in_subject_and_names(send, text):
    assert send({**MAIL, "subject": text, "to": {"mail": "ann@x.org", "label": text}}).returned == "ok"
    mail = send.server.mail()
    assert mail["subject"] == text
    raw = send.server.raw()
    assert display_name(raw, "to").strip() == text.strip()
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    raw.decode("ascii")


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "a\nb\r\nc\rd",
        ".\n..\n.leading dot\n",
        "ü" * 500,
        "mostly ascii, one ü" * 20,
        "Привет " * 200,
        "trailing space \nand tab\t\n",
        "x" * 5000,
        "From here\n",
        "\n\n\n",
        "=3D is not an escape\n",
        "null like \\0 and \x07 bell",
        "日本語\n" * 40,
    ],
    ids=short,
)
def test_every_body_arrives_as_it_was(send, text):
    assert send({**MAIL, "text": text, "html": f"<p>{text}"}).returned == "ok"
    raw, got = send.server.raw(), bodies(send.server.mail())
    want = re.sub("\r\n|\r|\n", "\n", text)
    assert got["text/plain"] == want
    assert got["text/html"] == f"<p>{want}"
    assert send.server.mail().get_content_type() == "multipart/alternative"
    assert [p.get_content_type() for p in send.server.mail().iter_parts()] == ["text/plain", "text/html"]
    assert all(len(line) <= 998 for line in raw.split(b"\r\n")) and b"\n" not in raw.replace(b"\r\n", b"")
    raw.decode("ascii")


def test_html_alone_is_the_only_part(send):
    assert send({**MAIL, "text": None, "html": "<b>ü</b>"}).returned == "ok"
    mail = send.server.mail()
    assert mail.get_content_type() == "text/html" and content(mail) == "<b>ü</b>\n"


def test_attachments_arrive_byte_for_byte(send, tmp_path):
    contents = {
        "a.pdf": os.urandom(100_000),
        "empty.bin": b"",
        "57.txt": b"x" * 57,
        "58.txt": b"x" * 58,
        "big.zip": os.urandom(57 * 64 * 3),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    files = [{"path": str(tmp_path / name)} for name in contents] + [
        {"path": str(tmp_path / "a.pdf"), "name": "Übersicht „Q1“ 100%.pdf", "type": "application/x-test"},
        {"path": str(tmp_path / "a.pdf"), "name": 'quo"te\\back.pdf', "type": "text/csv; charset=UTF-8"},
    ]
    outcome = send({**MAIL, "html": "<p>hi", "attachments": files})
    assert outcome.returned == "ok" and outcome.removed == []
    mail = send.server.mail()
    assert mail.get_content_type() == "multipart/mixed"
    parts = list(mail.iter_attachments())
    assert [(p.get_filename(), p.get_payload(decode=True)) for p in parts] == list(contents.items()) + [
        ("Übersicht „Q1“ 100%.pdf", contents["a.pdf"]),
        ('quo"te\\back.pdf', contents["a.pdf"]),
    ]
    assert [p.get_content_type() for p in parts] == [
        "application/pdf",
        "application/octet-stream",
        "text/plain",
        "text/plain",
        "application/zip",
        "application/x-test",
        "text/csv",
    ]
    assert bodies(mail)["text/html"].strip() == "<p>hi"
    assert {p.get_content_disposition() for p in parts} == {"attachment"}


def test_the_size_of_a_mail_with_attachments_is_announced(send, tmp_path):
    (tmp_path / "a.bin").write_bytes(os.urandom(10_000))
    assert (
        send({**MAIL, "text": "mostly ascii, one ü\n", "attachments": [{"path": str(tmp_path / "a.bin")}]}).returned
        == "ok"
    )
    [command] = [c for c in send.server.commands() if c.startswith("MAIL FROM:")]
    assert command == f"MAIL FROM:<app@example.org> SIZE={len(send.server.raw())}"


def test_the_boundary_differs_from_mail_to_mail(send, tmp_path):
    send({**MAIL, "html": "x"}, {**MAIL, "html": "x"})
    assert send.server.mail(1).get_boundary() != send.server.mail(2).get_boundary()


def test_the_message_id_stays_the_same_over_the_attempts_of_a_job(send):
    job = {"id": 42, "created_at_us": 1700000000000000}
    assert send({**MAIL, "to": "dropdata@x.org"}, attempt=1, **job).returned == "failed"
    assert send({**MAIL, "to": "ann@x.org"}, attempt=2, **job).returned == "ok"
    first, second = send.server.mail(1), send.server.mail(2)
    assert first["message-id"] == second["message-id"] == "<deferred.42.1700000000000000@example.org>"
    assert first["date"] == second["date"]


def test_the_date_is_the_time_when_the_mail_was_due(send):
    """A mail dated to when it was deferred would be sorted below what came meanwhile."""
    for ready, date in (
        (1700003600000000, "Tue, 14 Nov 2023 23:13:20 +0000"),
        (1600000000000000, "Tue, 14 Nov 2023 22:13:20 +0000"),
    ):
        assert send(MAIL, id=42, created_at_us=1700000000000000, ready_at=ready).returned == "ok"
        assert send.server.mail(len(send.server.envelopes()))["date"] == date


def test_mails_outside_of_a_queue_have_message_ids_of_their_own(send):
    send(MAIL, MAIL)
    assert send.server.mail(1)["message-id"] != send.server.mail(2)["message-id"]


def test_a_message_id_can_be_given(send):
    send({**MAIL, "message_id": "<order.17@shop.example>"}, id=3)
    assert send.server.mail()["message-id"] == "<order.17@shop.example>"


def test_automatic_mail_headers_are_left_to_the_application(send):
    send(MAIL)
    assert not {"auto-submitted", "precedence", "x-mailer", "user-agent"} & {
        k.lower() for k in send.server.mail().keys()
    }


# ---- settings


def test_the_sender_comes_from_the_settings_where_the_mail_names_none(send):
    mail = {k: v for k, v in MAIL.items() if k != "from"}
    assert send(mail, settings={"mail.from": "Das Büro <office@example.org>"}).returned == "ok"
    assert send.server.mail()["from"].addresses[0].display_name == "Das Büro"
    assert send.server.envelopes()[0]["from"] == "office@example.org"
    outcome = send(mail)
    assert (
        outcome.returned == "unready"
        and "the sender is missing" in outcome.error
        and 'mail { from = "you@example.org" }' in outcome.error
    )
    wrong = send(mail, settings={"mail.from": "nobody"})
    assert (wrong.returned, wrong.error) == (
        "unready",
        "mail.from: 'nobody' is not a mail address; hint: write an address such as ann@example.org",
    )
    assert send({**mail, "to": "x"}).returned == "dead"


def test_staging_redirects_the_whole_envelope_and_names_the_recipients(send):
    mail = {**MAIL, "to": ["ann@x.org", "550@x.org"], "cc": "Cy <cy@x.org>", "bcc": "dee@x.org"}
    outcome = send(mail, settings={"mail.to": "staging@example.org"})
    assert outcome.returned == "ok" and outcome.deferred == []
    assert send.server.envelopes()[0]["to"] == ["staging@example.org"]
    assert [a for _, a in email.utils.getaddresses([str(send.server.mail()["x-deferred-to"])])] == [
        "ann@x.org",
        "550@x.org",
        "cy@x.org",
        "dee@x.org",
    ]
    assert not [c for c in send.server.commands() if c.startswith("RCPT") and "staging" not in c]


def test_the_name_given_in_ehlo_can_be_set(send):
    send(MAIL, settings={"mail.helo": "mail.example.org"})
    assert send.server.envelopes()[0]["helo"] == "mail.example.org"


def test_recipients_are_limited(send):
    many = [f"r{i}@x.org" for i in range(5)]
    outcome = send({**MAIL, "to": many[:3], "bcc": many[3:]}, settings={"mail.recipients_max": 4})
    assert (outcome.returned, outcome.error) == (
        "dead",
        "the mail has 5 recipients, and mail.recipients_max allows 4; hint: send several mails",
    )
    assert send({**MAIL, "to": many}, settings={"mail.recipients_max": 5}).returned == "ok"


def test_one_connection_serves_the_mails_of_a_runner(send):
    assert [o.returned for o in send(MAIL, MAIL, {**MAIL, "to": "550@x.org"}, MAIL, MAIL)] == [
        "ok",
        "ok",
        "dead",
        "ok",
        "ok",
    ]
    ports = [e["peer_port"] for e in send.server.envelopes()]
    assert ports[0] == ports[1] and ports[2] == ports[3]


def test_the_proxy_of_the_environment_is_not_asked(send):
    assert send(MAIL, env={"all_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"}).returned == "ok"


# ---- login and encryption


def test_login_with_a_password_of_the_settings_or_of_a_file(call, smtpd, tmp_path):
    server = smtpd("--auth", "app:s3cret ü")
    settings = {"mail.port": server.port, "mail.user": "app", "mail.plain_login": 1}
    (tmp_path / "password").write_text("s3cret ü\nsecond line\n")
    (tmp_path / "password").chmod(0o600)
    assert call("send_mail", MAIL, settings={**settings, "mail.password": "s3cret ü"}).returned == "ok"
    assert call("send_mail", MAIL, settings={**settings, "mail.password_file": tmp_path / "password"}).returned == "ok"
    assert [e["auth"] for e in server.envelopes()] == ["app", "app"]


def test_a_wrong_password_is_refused_in_the_words_of_the_server(call, smtpd, tmp_path):
    server = smtpd("--auth", "app:right")
    outcome = call(
        "send_mail",
        MAIL,
        settings={"mail.port": server.port, "mail.user": "app", "mail.password": "wrong", "mail.plain_login": 1},
    )
    assert outcome.returned == "unready"
    assert outcome.error == (
        f"localhost:{server.port}: AUTH: 535 5.7.8 Authentication credentials invalid"
        "; hint: check mail { user, password_file, tls }"
    )
    missing = call(
        "send_mail",
        MAIL,
        settings={
            "mail.port": server.port,
            "mail.user": "app",
            "mail.password_file": tmp_path / "none",
            "mail.plain_login": 1,
        },
    )
    assert missing.returned == "unready" and "mail.password_file" in missing.error
    none = call("send_mail", MAIL, settings={"mail.port": server.port, "mail.user": "app", "mail.plain_login": 1})
    assert none.returned == "unready" and "mail { password_file" in none.error
    # A server that wants a login says so when it gets the mail, and means the settings.
    stranger = call("send_mail", MAIL, settings={"mail.port": server.port})
    assert stranger.returned == "unready" and "mail { user, password_file, tls }" in stranger.error
    assert server.envelopes() == []


@pytest.mark.parametrize("settings", [{}, {"mail.tls": "none"}, {"mail.plain_login": 0}], ids=short)
def test_no_password_goes_out_in_clear_text_unless_asked_for(call, smtpd, settings):
    """Nor over loopback, where whoever gets the port first is the server."""
    server = smtpd("--auth", "app:right")
    outcome = call(
        "send_mail", MAIL, settings={"mail.port": server.port, "mail.user": "app", "mail.password": "right", **settings}
    )
    assert outcome.returned == "unready" and "mail.plain_login = 1" in outcome.error and server.commands() == []


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o640])
def test_a_password_file_is_for_few_eyes(call, smtpd, tmp_path, mode):
    server, path = smtpd("--auth", "app:right"), tmp_path / "password"
    path.write_text("right\n")
    path.chmod(mode)
    settings = {"mail.port": server.port, "mail.user": "app", "mail.password_file": path, "mail.plain_login": 1}
    outcome = call("send_mail", MAIL, settings=settings)
    if mode == 0o640 and os.geteuid() == 0:
        assert outcome.returned == "ok"
        os.chown(path, 65534, -1)
        outcome = call("send_mail", MAIL, settings=settings)
    assert (
        outcome.returned == "unready"
        and f"(mode {mode:04o}); hint: chmod 600 it" in outcome.error
        and str(path) in outcome.error
    )
    path.chmod(0o600)
    assert call("send_mail", MAIL, settings=settings).returned == "ok"


@pytest.mark.parametrize("mode", ["starttls", "tls"])
def test_encrypted_mail_is_sent_only_to_the_server_of_that_name(call, smtpd, certificates, mode):
    good = smtpd(
        "--tls",
        mode,
        "--cert",
        str(certificates / "good.pem"),
        "--key",
        str(certificates / "good.key"),
        "--auth",
        "u:p",
    )
    wrong = smtpd("--tls", mode, "--cert", str(certificates / "wrong.pem"), "--key", str(certificates / "wrong.key"))
    settings = {"mail.tls": mode, "mail.ca_file": certificates / "ca.pem", "mail.user": "u", "mail.password": "p"}
    outcome = call("send_mail", MAIL, MAIL, settings={**settings, "mail.port": good.port})
    assert [o.returned for o in outcome] == ["ok", "ok"], outcome[0].error
    assert [(e["tls"], e["auth"]) for e in good.envelopes()] == [(True, "u")] * 2
    for port, ca in ((wrong.port, "ca.pem"), (good.port, "other.pem")):
        refused = call("send_mail", MAIL, settings={**settings, "mail.port": port, "mail.ca_file": certificates / ca})
        assert (
            refused.returned == "unready"
            and "certificate" in refused.error.lower()
            and "mail { ca_file = " in refused.error
        )
    for ca in ("", "/nowhere.pem"):
        refused = call("send_mail", MAIL, settings={**settings, "mail.port": good.port, "mail.ca_file": ca})
        assert refused.returned == "unready" and "mail { ca_file" in refused.error
    assert len(good.envelopes()) == 2 and wrong.envelopes() == []


def test_starttls_is_not_silently_left_out(send):
    outcome = send(MAIL, settings={"mail.tls": "starttls"})
    assert outcome.returned == "unready" and 'mail { tls = "starttls" }' in outcome.error
    assert send.server.envelopes() == [] and not [c for c in send.server.commands() if c.startswith("MAIL")]


# ---- what each answer leads to


@pytest.mark.parametrize(
    "mail,returned,words",
    [
        ({"from": "from451@x.org"}, "failed", "MAIL FROM: 451 4.1.0 as asked by from451"),
        ({"from": "from550@x.org"}, "dead", "MAIL FROM: 550 5.1.0 as asked by from550"),
        ({"to": "451@x.org"}, "failed", "RCPT TO: 451@x.org: 451 4.1.0 as asked by 451"),
        ({"to": "550@x.org"}, "dead", "RCPT TO: 550@x.org: 550 5.1.0 as asked by 550"),
        ({"to": ["550@x.org", "554@x.org"]}, "dead", "550@x.org: 550 5.1.0 as asked by 550; 554@x.org: 554"),
        ({"to": ["550@x.org", "452@x.org"]}, "failed", "452@x.org: 452"),
        ({"to": ["550@x.org", "530@x.org"]}, "dead", "530@x.org: 530"),
        ({"to": ["530@x.org", "530@y.org"]}, "unready", "mail { user, password_file, tls }"),
        ({"from": "from530@x.org"}, "unready", "mail { user, password_file, tls }"),
        ({"to": "data452@x.org"}, "failed", "message: 452 4.1.0 as asked by data452"),
        ({"to": "data554@x.org"}, "dead", "message: 554 5.1.0 as asked by data554"),
        ({"to": "drop@x.org"}, "failed", "RCPT TO: connection lost"),
        (
            {"to": "dropdata@x.org"},
            "failed",
            "no answer to the message, which may have been delivered: connection lost",
        ),
    ],
)
def test_temporary_answers_retry_permanent_ones_do_not(send, mail, returned, words):
    outcome = send({**MAIL, **mail})
    assert outcome.returned == returned
    assert outcome.error.startswith(f"localhost:{send.server.port}: ") and words in outcome.error
    assert outcome.deferred == [] and outcome.removed == []


@pytest.mark.parametrize("name,words", [("slow", "RCPT TO: "), ("slowdata", "may have been delivered: ")])
def test_a_server_that_does_not_answer_in_time_is_tried_again(send, name, words):
    outcome = send({**MAIL, "to": f"{name}@x.org"}, settings={"mail.timeout": 1000}, timeout=20)
    assert outcome.returned == "failed" and words in outcome.error and re.search("timed out|timeout", outcome.error)


def test_a_greylisted_mail_goes_out_at_the_second_attempt(send):
    first, second = send({**MAIL, "to": "grey@x.org"}, {**MAIL, "to": "grey@x.org"}, id=9)
    assert (first.returned, second.returned) == ("failed", "ok")


def test_a_server_that_cannot_be_reached_is_tried_again(call):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        outcome = call("send_mail", MAIL, settings={"mail.port": s.getsockname()[1]})
    assert outcome.returned == "unready" and "connect: " in outcome.error and "mail { host = " in outcome.error
    assert call("send_mail", MAIL, settings={"mail.host": "nowhere.invalid"}).returned == "unready"
    assert call("send_mail", MAIL, settings={"mail.host": "a/b\r\nc"}).returned == "unready"


class Script:
    """A server that says what it is told to one client and hangs up."""

    def __init__(self, says):
        self.says = says
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(20)
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        connection, _ = self.socket.accept()
        with connection:
            connection.sendall(self.says)

    def stop(self):
        self.thread.join()
        self.socket.close()


@pytest.mark.parametrize(
    "says",
    [
        b"",
        b"554 no mail here\r\n",
        b"421 busy\r\n",
        b"\x00\xff\xfe junk\r\n",
        b"220 x",
        b"220 x\r\n",
        b"220-a\r\n220 b\r\n500 no\r\n500 no\r\n",
    ],
)
def test_trouble_before_the_mail_is_about_the_server_and_may_pass(call, says):
    script = Script(says)
    outcome = call("send_mail", MAIL, settings={"mail.port": script.port, "mail.timeout": 2000}, timeout=20)
    script.stop()
    assert outcome.returned == "unready" and outcome.error


def test_a_too_big_mail_is_refused_before_it_is_sent(call, smtpd):
    server = smtpd("--max-size", "20000")
    outcome = call("send_mail", {**MAIL, "text": "x\n" * 20000}, settings={"mail.port": server.port})
    assert outcome.returned == "dead" and "552" in outcome.error
    assert "DATA" not in server.commands()


class Impatient:
    """A server that takes each mail and at once hangs up with a 421, as one does that waited too long for the next."""

    def __init__(self, connections, before_data=lambda: None):
        self.before_data = before_data
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(20)
        self.port = self.socket.getsockname()[1]
        self.taken = 0
        self.thread = threading.Thread(target=self.serve, args=(connections,), daemon=True)
        self.thread.start()

    def serve(self, connections):
        for _ in range(connections):
            connection, _ = self.socket.accept()
            connection.settimeout(20)
            with connection, connection.makefile("rwb", buffering=0) as lines:
                lines.write(b"220 impatient\r\n")
                for line in iter(lines.readline, b""):
                    if line != b"DATA\r\n":
                        lines.write(b"250 ok\r\n")
                        continue
                    self.before_data()
                    lines.write(b"354 go ahead\r\n")
                    if b".\r\n" in iter(lines.readline, b""):
                        self.taken += 1
                        lines.write(b"250 taken\r\n421 too slow\r\n")
                    break

    def stop(self):
        self.thread.join()
        self.socket.close()


def test_a_connection_the_server_gave_up_meanwhile_costs_no_attempt(call):
    server = Impatient(3)
    outcomes = call("send_mail", MAIL, MAIL, MAIL, settings={"mail.port": server.port, "mail.timeout": 10000})
    server.stop()
    assert [o.returned for o in outcomes] == ["ok"] * 3, [o.error for o in outcomes]
    assert server.taken == 3


# ---- partial acceptance


def test_who_accepted_never_gets_it_again_and_the_rest_is_deferred(send):
    recipients = [f"r{i}@x.org" if i % 2 else f"grey@x{i}.org" for i in range(8)]
    mail = {**MAIL, "to": recipients[:4], "cc": recipients[4:6], "bcc": recipients[6:]}
    todo, opts_seen, rounds = [mail], [], 0
    while todo:
        outcome = send(
            todo.pop(),
            id=100 + rounds,
            created_at_us=1700000000000000 + rounds,
            label="the label",
            settings={"backoff_floor": 3000},
        )
        assert outcome.returned == "ok"
        todo += [params for fn, params, opts in outcome.deferred if fn == "send_mail"]
        opts_seen += [opts for fn, params, opts in outcome.deferred]
        rounds += 1
    assert rounds == 2 and opts_seen == [{"label": "the label", "delay": "3000ms"}]
    copies = [r for e in send.server.envelopes() for r in e["to"]]
    assert sorted(copies) == sorted(recipients)
    assert len({send.server.mail(n)["message-id"] for n in (1, 2)}) == 1
    assert send.server.mail(2)["to"] == send.server.mail(1)["to"]
    assert b"Bcc" not in send.server.raw(2) and recipients[6].encode() not in send.server.raw(2)


def test_a_recipient_refused_for_good_ends_as_a_dead_job_of_its_own(send):
    outcome = send({**MAIL, "to": ["ann@x.org", "550@x.org"]}, id=1)
    assert outcome.returned == "ok" and "deferred for the rest: 550@x.org: 550" in outcome.result
    [(fn, params, opts)] = outcome.deferred
    assert params["deliver_to"] == ["550@x.org"] and not opts.get("delay")
    again = send(params, id=2)
    assert again.returned == "dead" and again.deferred == []


def test_files_stay_until_the_last_recipient_has_them(send, tmp_path):
    (tmp_path / "a.txt").write_text("x")
    mail = {
        **MAIL,
        "to": ["ann@x.org", "grey@x.org"],
        "attachments": [{"path": str(tmp_path / "a.txt"), "delete_after_send": True}],
    }
    outcome = send(mail, id=1)
    assert outcome.returned == "ok" and outcome.removed == []
    last = send(outcome.deferred[0][1], id=2)
    assert last.returned == "ok" and last.removed == [str(tmp_path / "a.txt")]


def test_where_the_rest_cannot_be_deferred_it_is_not_sent_again_either(send):
    outcome = send({**MAIL, "to": ["ann@x.org", "550@x.org"]}, env={"REFUSE_DEFER": "1"})
    assert outcome.returned == "dead" and "could not be deferred: 550@x.org" in outcome.error


# ---- attachments


def test_a_file_is_removed_only_after_success(send, tmp_path):
    path = str(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text("x")
    attachments = [{"path": path, "delete_after_send": True}]
    assert send({**MAIL, "attachments": attachments, "to": "451@x.org"}).removed == []
    assert send({**MAIL, "attachments": attachments, "to": "dropdata@x.org"}).removed == []
    assert send({**MAIL, "attachments": attachments}).removed == [path]
    assert send({**MAIL, "attachments": [{"path": path, "delete_after_send": False}]}).removed == []
    assert os.path.exists(path)


def test_a_file_that_becomes_shorter_while_it_is_sent_ends_the_mail(call, tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"x" * 500_000)
    server = Impatient(1, lambda: os.truncate(path, 100_000))
    outcome = call(
        "send_mail",
        {**MAIL, "attachments": [{"path": str(path), "delete_after_send": True}]},
        settings={"mail.port": server.port, "mail.timeout": 10000, "mail.attachment_dir": tmp_path},
    )
    server.stop()
    assert outcome.returned == "dead" and outcome.error == f"cannot read attachment '{path}': it has become shorter"
    assert server.taken == 0 and outcome.removed == []


def test_what_is_no_readable_file_is_named(send, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for path, words in (
        (tmp_path / "missing", "No such file"),
        (f"{tmp_path}/.", "not a regular file"),
        (tmp_path / "fifo", "not a regular file"),
        (tmp_path / "link", "symbolic link"),
        ("/dev/zero", "outside of the folder"),
    ):
        outcome = send({**MAIL, "attachments": [{"path": str(path)}]})
        assert outcome.returned == "dead" and f"'{path}'" in outcome.error and words in outcome.error
    assert send.server.commands() == []


def test_attachments_lie_below_the_folder_of_the_setting(send, tmp_path):
    allowed, settings = tmp_path / "allowed", {"mail.attachment_dir": tmp_path / "allowed"}
    allowed.mkdir()
    (allowed / "in.txt").write_text("x")
    (tmp_path / "out.txt").write_text("x")
    (tmp_path / "allowed2").mkdir()
    (tmp_path / "allowed2" / "out.txt").write_text("x")
    (allowed / "way_out").symlink_to(tmp_path)
    (allowed / "root").symlink_to("/proc/self/root")
    (allowed / "hard").hardlink_to(tmp_path / "out.txt")
    for path in (
        "out.txt",
        "allowed/../out.txt",
        "allowed2/out.txt",
        "allowed/way_out/out.txt",
        "allowed/root/etc/hostname",
        "allowed/hard",
    ):
        outcome = send(
            {**MAIL, "attachments": [{"path": str(tmp_path) + "/" + path, "delete_after_send": True}]},
            settings=settings,
        )
        assert (
            outcome.returned == "dead"
            and f"below mail.attachment_dir '{allowed}': it " in outcome.error
            and outcome.removed == []
        )
    assert send.server.commands() == []
    assert send({**MAIL, "attachments": [{"path": str(allowed / "in.txt")}]}, settings=settings).returned == "ok"


def test_without_the_setting_no_file_is_sent_or_removed(send, tmp_path):
    """The producer of a mail is no friend of whoever runs it: it names what that user alone may read."""
    (tmp_path / ".pgpass").write_text("db:5432:app:root:secret\n")
    for path in (tmp_path / ".pgpass", "/etc/hostname", "/proc/self/environ", f"{tmp_path}/../{tmp_path.name}/.pgpass"):
        outcome = send(
            {**MAIL, "attachments": [{"path": str(path), "delete_after_send": True}]},
            settings={"mail.attachment_dir": ""},
        )
        assert outcome.returned == "dead" and "mail.attachment_dir" in outcome.error and outcome.removed == []
    assert send.server.commands() == [] and (tmp_path / ".pgpass").exists()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 30_000])
def test_content_in_the_params_needs_no_folder(send, size):
    data = os.urandom(size)
    text = base64.b64encode(data).decode()
    files = [
        {"name": "a.bin", "content_base64": text},
        {"name": "ü.csv", "content": "a;ü\r\n\n.\n"},
        {
            "name": "b.bin",
            "content_base64": base64.encodebytes(data).decode().rstrip("=\n"),
            "type": "application/x-test",
        },
    ]
    assert send({**MAIL, "attachments": files}, settings={"mail.attachment_dir": ""}).returned == "ok"
    assert [
        (p.get_filename(), p.get_content_type(), p.get_payload(decode=True))
        for p in send.server.mail().iter_attachments()
    ] == [
        ("a.bin", "application/octet-stream", data),
        ("ü.csv", "text/csv", "a;ü\r\n\n.\n".encode()),
        ("b.bin", "application/x-test", data),
    ]


@pytest.mark.parametrize(
    "file,words",
    [
        ({"content": "x"}, "name"),
        ({"name": "a", "content": "x", "path": "/a"}, "one of"),
        ({"name": "a"}, "one of"),
        ({"name": "a", "content": "x", "content_base64": "eA=="}, "one of"),
        ({"name": "a", "content": 5}, "content: the value is not a JSON string"),
        *[
            ({"name": "a", "content_base64": text}, "not Base64")
            for text in ("a", "eA==x", "e A==", "é", "eA-_", "aaaaa")
        ],
    ],
    ids=short,
)
def test_wrong_content_is_refused(send, file, words):
    outcome = send({**MAIL, "attachments": [file]})
    assert outcome.returned == "dead" and words in outcome.error


# ---- what the HTML shows


PICTURE = {"name": "logo.png", "cid": "logo@app", "content_base64": "iVBORw0K"}


def shape(part):
    """Content types as they are nested."""
    return [part.get_content_type(), *map(shape, part.iter_parts())] if part.is_multipart() else part.get_content_type()


def test_what_the_html_shows_stands_beside_it(send):
    file = {"name": "a.pdf", "content": "x"}
    related = ["multipart/related", "text/html", "image/png"]
    html = {**MAIL, "html": '<img src="cid:logo@app">'}
    alone = {k: v for k, v in html.items() if k != "text"}
    assert {
        o.returned
        for o in send(
            {**html, "attachments": [PICTURE, file]},
            {**html, "attachments": [PICTURE]},
            {**alone, "attachments": [PICTURE]},
            {**alone, "attachments": [file, PICTURE, {**PICTURE, "cid": "b"}]},
        )
    } == {"ok"}
    assert [shape(send.server.mail(n)) for n in (1, 2, 3, 4)] == [
        ["multipart/mixed", ["multipart/alternative", "text/plain", related], "application/pdf"],
        ["multipart/alternative", "text/plain", related],
        related,
        ["multipart/mixed", related + ["image/png"], "application/pdf"],
    ]
    [part] = [p for p in send.server.mail(2).walk() if p.get_content_type() == "image/png"]
    assert (part["content-id"], part.get_content_disposition(), part.get_filename()) == (
        "<logo@app>",
        "inline",
        "logo.png",
    )
    assert part.get_payload(decode=True) == base64.b64decode("iVBORw0K")
    [holder] = [p for p in send.server.mail(2).walk() if p.get_content_type() == "multipart/related"]
    assert holder.get_param("type") == "text/html"


def test_a_wrong_cid_is_refused(send):
    mails = [
        {**MAIL, "html": "x", "attachments": [{**PICTURE, "cid": cid}]}
        for cid in ("", "a b", "a>", "ü", "x" * 201, "a\r\nBcc: eve@x.org", 5)
    ]
    mails += [{**MAIL, "attachments": [PICTURE]}, {**MAIL, "html": "x", "attachments": [PICTURE, PICTURE]}]
    outcomes = send(*mails)
    assert {o.returned for o in outcomes} == {"dead"} and all("cid" in o.error for o in outcomes)
    assert "without html" in outcomes[-2].error and "there twice" in outcomes[-1].error and send.server.commands() == []


# ---- headers of the mail's own


GOOD = {
    "Auto-Submitted": "auto-generated",
    "in-reply-to": "<a@b>",
    "References": " ".join(f"<{i:040}@x.org>" for i in range(30)),
    "List-Unsubscribe": "<https://x.org/u?a=?UTF-8?Q?b>, <mailto:u@x.org?subject=out>",
    "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    "X-Order": "Grüße 4711",
    "Organization": "Die Übersicht " * 20,
    "X-" + "a" * 48: "ü" * 100,
    "Precedence": "bulk",
}
BAD = [
    ("", "x"),
    ("X", "x"),
    ("X-", "x"),
    ("X-A:", "x"),
    ("X A", "x"),
    ("X-\r\nBcc", "x"),
    ("X-ü", "x"),
    ("X-" + "a" * 49, "x"),
    ("X-A", ""),
    ("X-A", 5),
    ("X-A", None),
    ("X-A", "x" * 2001),
    ("X-A", "a\r\nBcc: eve@x.org"),
    ("X-A", "a\nb"),
    ("X-A", "a\tb"),
    ("X-A", "a\x00b"),
    ("X-A", "a\x85b"),
    ("References", "<ü@x>"),
    ("References", " <a@x>"),
    ("References", "<a@x> "),
    ("References", "<" + "a" * 500),
    ("List-Id", " "),
] + [
    (name, "x")
    for name in (
        "From",
        "To",
        "CC",
        "bcc",
        "Sender",
        "Reply-To",
        "Subject",
        "Date",
        "Message-ID",
        "MIME-Version",
        "Content-Type",
        "Content-Transfer-Encoding",
        "Return-Path",
        "Received",
        "Resent-To",
        "DKIM-Signature",
        "Authentication-Results",
        "Delivered-To",
        "X-Deferred-To",
        "x-deferred-any",
        "X-SMTPAPI",
        "X-Spam-Status",
        "X-Original-To",
        "X-Envelope-To",
        "Errors-To",
        "List-",
        "List-Any",
        "Disposition-Notification-To",
    )
]


def test_a_mail_brings_headers_of_its_own(send):
    assert send({**MAIL, "headers": GOOD}).returned == "ok"
    mail, raw = send.server.mail(), send.server.raw()
    assert {name: mail[name] for name in GOOD} == GOOD
    assert all(
        len(line) <= 76
        for line in raw.split(b"\r\n\r\n")[0].split(b"\r\n")
        if not line.startswith((b"List", b"Content-Type"))
    ), raw
    assert b"=?UTF-8?Q?b>" in raw
    raw.decode("ascii")


def test_no_header_is_taken_that_is_not_for_mails_to_set(send):
    outcomes = send(*[json.dumps({**MAIL, "headers": {name: text}}) for name, text in BAD])
    assert [(bad, o.returned) for bad, o in zip(BAD, outcomes)] == [(bad, "dead") for bad in BAD]
    others = send(
        {**MAIL, "headers": []},
        {**MAIL, "headers": {"X-A": "1", "x-a": "2"}},
        {**MAIL, "headers": {f"X-{i}": "x" for i in range(51)}},
    )
    assert {o.returned for o in others} == {"dead"} and "there twice" in others[1].error
    assert send.server.commands() == []


# ---- addresses outside of ASCII


def test_a_server_with_smtputf8_gets_addresses_as_they_are(call, smtpd):
    server = smtpd("--utf8")
    mails = [
        {**MAIL, "to": ["jörg@x.org", "ann@x.org"]},
        MAIL,
        {**MAIL, "from": "büro@x.org", "message_id": None},
        {**MAIL, "cc": "日本@例え.jp"},
    ]
    assert [(o.returned, o.deferred) for o in call("send_mail", *mails, settings={"mail.port": server.port})] == [
        ("ok", [])
    ] * 4
    assert [e["to"][0] for e in server.envelopes()] == [
        "jörg@x.org",
        "ann@example.org",
        "ann@example.org",
        "ann@example.org",
    ]
    # The name of a host goes in its xn-- form, which libcurl makes.
    assert server.envelopes()[3]["to"][1].split("@")[0] == "日本" and server.envelopes()[2]["from"] == "büro@x.org"
    assert [" SMTPUTF8" in c for c in server.commands() if c.startswith("MAIL")] == [True, False, True, True]
    assert "To: jörg@x.org,\r\n ann@x.org\r\n".encode() in server.raw(1) and "Cc: 日本@例え.jp\r\n".encode() in server.raw(
        4
    )
    assert len({e["peer_port"] for e in server.envelopes()}) == 1


def test_a_server_without_it_gets_nothing_for_them_for_good(send):
    outcome = send({**MAIL, "to": ["ann@x.org", "jörg@x.org", "550@x.org"], "cc": "Bö <bö@x.org>"}, id=5)
    assert outcome.returned == "ok" and "took it for 1 of 4" in outcome.result
    assert (
        "jörg@x.org: letters outside of ASCII take a server that offers SMTPUTF8, which this one does not"
        in outcome.result
    )
    [(_, rest, opts)] = outcome.deferred
    assert sorted(rest["deliver_to"]) == ["550@x.org", "bö@x.org", "jörg@x.org"] and "delay" not in opts
    assert send.server.envelopes()[0]["to"] == ["ann@x.org"]
    mail = send.server.mail()
    assert [a.addr_spec for a in mail["to"].addresses] == [
        "ann@x.org",
        "550@x.org",
    ] and b"=?UTF-8?Q?j=C3=B6rg=40x=2Eorg?= :;" in send.server.raw()
    send.server.raw().decode("ascii")
    for mail, words in (
        (rest, "550@x.org: 550"),
        ({**MAIL, "to": "jörg@x.org"}, "RCPT TO: jörg@x.org: letters"),
        ({**MAIL, "to": "a@ü.org"}, "xn-- form"),
        ({**MAIL, "from": "bü@x.org"}, "from: bü@x.org: letters"),
        ({**MAIL, "reply_to": "bü@x.org"}, "reply_to: "),
    ):
        outcome = send(mail)
        assert outcome.returned == "dead" and words in outcome.error and outcome.deferred == []
    assert len(send.server.envelopes()) == 1 and not [c for c in send.server.commands() if not c.isascii()]
    outcome = send({**MAIL, "from": None}, settings={"mail.from": "bü@x.org"})
    assert outcome.returned == "unready" and "mail.from" in outcome.error


# ---- hostile input


LINE_ENDS = ["\r\n", "\n", "\r", "\x00", "\x1b", "\x7f", "\u0085"]


@pytest.mark.parametrize("end", LINE_ENDS, ids=short)
def test_nothing_can_add_a_header_or_a_command(send, tmp_path, end):
    (tmp_path / "a.txt").write_text("x")
    evil = end + "RCPT TO:<victim@x.org>" + end + "Bcc: victim@x.org" + end
    mails = []
    for field in ("from", "to", "cc", "bcc", "reply_to"):
        mails += [
            {**MAIL, field: "ann@x.org" + evil},
            {**MAIL, field: "Ann" + evil + " <ann@x.org>"},
            {**MAIL, field: evil + "ann@x.org"},
            {**MAIL, field: {"mail": "ann" + evil + "@x.org"}},
            {**MAIL, field: {"mail": "ann@x.org", "label": "Ann" + evil}},
        ]
    mails += [
        {**MAIL, "subject": "s" + evil},
        {**MAIL, "message_id": "a@b" + evil},
        {**MAIL, "deliver_to": ["ann@x.org" + evil]},
    ]
    for field in ("name", "type", "path"):
        mails.append(
            {**MAIL, "attachments": [{"path": str(tmp_path / "a.txt"), field: str(tmp_path / "a.txt") + evil}]}
        )
    outcomes = send(*[json.dumps(m) for m in mails])
    assert {o.returned for o in outcomes} == {"dead"}
    assert all(o.error for o in outcomes)
    assert send.server.commands() == [] and send.server.envelopes() == []


def test_a_body_cannot_end_the_message(send):
    assert (
        send(
            {
                **MAIL,
                "text": "one\r\n.\r\nMAIL FROM:<victim@x.org>\r\nRCPT TO:<victim@x.org>\r\nDATA\r\n\r\n.\nQUIT\r\n",
                "html": "\n.\nRSET\n",
            }
        ).returned
        == "ok"
    )
    assert [e["to"] for e in send.server.envelopes()] == [["ann@example.org"]]
    assert not [c for c in send.server.commands() if "victim" in c or c == "RSET"]


@pytest.mark.parametrize("address", ADDRESSES, ids=short)
def test_what_is_no_address_is_refused(send, address):
    outcome = send({**MAIL, "to": address}, {**MAIL, "from": address}, {**MAIL, "to": [{"mail": address}]})
    assert {o.returned for o in outcome} == {"dead"}
    assert send.server.commands() == []


@pytest.mark.parametrize(
    "params,words",
    [
        ([], "not a JSON object: another JSON value was given"),
        ("nonsense", "not a JSON object: "),
        ({}, "the recipient is missing"),
        ({**MAIL, "to": None}, "the recipient is missing"),
        ({**MAIL, "subjct": "x"}, "field 'subjct' is unknown"),
        ({**MAIL, "subject": 1}, "subject: the value is not a JSON string"),
        ({**MAIL, "to": 1}, "to: the address is invalid; hint: write "),
        ({**MAIL, "to": {"mail": "a@b", "name": "x"}}, "member 'name' of the address is unknown"),
        ({**MAIL, "from": ["a@b", "c@d"]}, "from: more than 1"),
        ({**MAIL, "attachments": {}}, "attachments: the value is not an array"),
        ({**MAIL, "attachments": [{"path": "relative"}]}, "not absolute"),
        ({**MAIL, "attachments": [{"path": "/etc/passwd", "name": "a/b"}]}, "slash"),
        (
            {**MAIL, "attachments": [{"path": "/etc/passwd", "type": "multipart/mixed"}]},
            "has a type that a file cannot have",
        ),
        ({**MAIL, "attachments": [{"path": "/etc/passwd", "type": "text"}]}, "not TYPE/SUBTYPE"),
        ({**MAIL, "attachments": [{"file": "x"}]}, "attachments: member 'file' is unknown"),
        ({**MAIL, "message_id": "no at sign"}, "message_id"),
        ({**MAIL, "deliver_to": []}, "deliver_to: the list is empty"),
        (json.dumps({**MAIL, "text": "nul"}).replace("nul", "\\u0000"), "not a JSON object"),
    ],
)
def test_wrong_params_are_an_error_for_good_that_names_them(send, params, words):
    outcome = send(params)
    assert outcome.returned == "dead" and words in outcome.error
    assert send.server.commands() == []
