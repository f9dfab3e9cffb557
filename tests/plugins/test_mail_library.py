"""deferred_send_mail(): a job with `mail.defer = 1`, else sent here and now by the plugin."""

import json
import os

import pytest

import harness

MAIL = {"from": ["app@example.org", "Büro"], "to": [["ann@x.org", None]], "subject": "Grüße", "text": "hi\n"}
OK, EINVAL, ECONNECT, ECONFIG, EPLUGIN, EFAILED = 0, -1, -4, -6, -8, -11


@pytest.fixture
def mail_call(db, smtpd, tmp_path):
    """mail_call(mail, ...) with the config file of the test's own database, which points at mail_call.server."""
    server = smtpd()

    def run(*mails, args=(), config="", env=None, folder=tmp_path):
        db.config(f'mail {{ host = "localhost" port = {server.port} attachment_dir = "{folder}" {config} }}\n')
        done = db.run(
            [os.path.join(harness.BUILD, "tests", "harness", "mail_call"), *args]
            + [json.dumps(m, ensure_ascii=False) for m in mails],
            env=env,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        return answers[0] if len(mails) == 1 else answers

    run.server = server
    return run


def test_without_defer_the_mail_has_gone_out_when_the_call_returns(mail_call, db, tmp_path):
    for name in ("stays.txt", "goes.txt"):
        (tmp_path / name).write_text(name)
    mail = {
        **MAIL,
        "html": "<p>hi",
        "cc": [["cy@x.org", "Cy"]],
        "bcc": [["dee@x.org", None]],
        "reply_to": ["help@x.org", "Help"],
        "attachments": [
            {"path": str(tmp_path / "stays.txt")},
            {"path": str(tmp_path / "goes.txt"), "name": "ü.txt", "type": "text/x-y", "delete_after_send": True},
        ],
    }
    assert mail_call(mail) == {"code": OK, "id": 0, "message": "", "hint": ""}
    got = mail_call.server.mail()
    assert mail_call.server.envelopes()[0]["to"] == ["ann@x.org", "cy@x.org", "dee@x.org"]
    assert (got["subject"], got["from"].addresses[0].display_name) == ("Grüße", "Büro")
    assert [(p.get_filename(), p.get_content_type()) for p in got.iter_attachments()] == [
        ("stays.txt", "text/plain"),
        ("ü.txt", "text/x-y"),
    ]
    assert sorted(os.listdir(tmp_path)) == ["mail0", "stays.txt"]
    assert db.hot() == 0


def test_a_mail_brings_headers_and_shows_pictures(mail_call):
    mail = {
        **MAIL,
        "html": '<img src="cid:l">',
        "attachments": [{"name": "l.png", "content": "x", "cid": "l"}],
        "headers": {"Auto-Submitted": "auto-generated"},
    }
    evil = "x\r\nBcc: eve@x.org"
    answers = mail_call(
        mail,
        {**mail, "headers": {"X-A": evil}},
        {**mail, "headers": {evil: "x"}},
        {**mail, "headers": {"X-A": ""}},
        {**mail, "attachments": [{"name": "a", "content": "x", "cid": evil}]},
        {**mail, "headers": {"Bcc": "eve@x.org"}},
    )
    assert [a["code"] for a in answers] == [OK, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL]
    assert "not among" in answers[-1]["message"]
    got = mail_call.server.mail()
    assert got["auto-submitted"] == "auto-generated" and [p["content-id"] for p in got.walk() if p["content-id"]] == [
        "<l>"
    ]
    assert len(mail_call.server.envelopes()) == 1


def test_no_file_is_sent_or_removed_unless_a_folder_is_set(mail_call, tmp_path):
    (tmp_path / "a.txt").write_text("x")
    files = [{"path": str(tmp_path / "a.txt"), "delete_after_send": True}]
    answer = mail_call({**MAIL, "attachments": files}, folder="")
    assert answer["code"] == EFAILED and "mail.attachment_dir" in answer["message"]
    assert mail_call.server.commands() == [] and (tmp_path / "a.txt").exists()
    (tmp_path / "below").mkdir()
    assert mail_call({**MAIL, "attachments": files}, folder=tmp_path / "below")["code"] == EFAILED
    assert (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("config", ["defer = 1", "defer = 0"])
def test_content_needs_no_folder(mail_call, db, config):
    texts = ["", "x", "xy", "xyz", "ünd more"]
    answer = mail_call(
        {**MAIL, "attachments": [{"name": f"{i}.txt", "content": t} for i, t in enumerate(texts)]},
        config=config,
        folder="",
    )
    assert answer["code"] == OK
    assert db.run(["check_deferred"]).returncode == 0
    assert [p.get_payload(decode=True).decode() for p in mail_call.server.mail().iter_attachments()] == texts
    assert mail_call({**MAIL, "attachments": [{"content": "x"}]}, config=config)["code"] == EINVAL


def test_several_mails_of_a_process_use_one_connection(mail_call):
    assert [a["code"] for a in mail_call(MAIL, MAIL)] == [OK, OK]
    first, second = mail_call.server.envelopes()
    assert first["peer_port"] == second["peer_port"]
    assert mail_call.server.mail(1)["message-id"] != mail_call.server.mail(2)["message-id"]


def test_a_child_can_send_while_a_thread_of_its_parent_talks_to_the_server(mail_call, smtpd):
    """The child is not stopped by the lock that thread holds, nor does it use the connection."""
    server = smtpd("--slow", "3")
    slow = {**MAIL, "to": [["slow@x.org", None]]}
    answers = mail_call(
        slow, MAIL, args=["-f", os.path.join(server.dir, "commands.log")], env={"DEFERRED_MAIL_PORT": str(server.port)}
    )
    assert [a["code"] for a in answers] == [OK, OK]
    first, second = server.envelopes()
    assert first["to"] == ["ann@x.org"] and second["to"] == ["slow@x.org"] and first["peer_port"] != second["peer_port"]


@pytest.mark.parametrize("more", [[], ["--no-goodbye"]])
def test_a_process_with_an_encrypted_connection_ends_cleanly(mail_call, smtpd, certificates, more):
    """A server that does not answer to QUIT would hold it up for two minutes."""
    certificate = ["--cert", str(certificates / "good.pem"), "--key", str(certificates / "good.key")]
    server = smtpd("--tls", "tls", *certificate, *more)
    config = f'tls = tls ca_file = "{certificates}/ca.pem"'
    assert mail_call(MAIL, config=config, env={"DEFERRED_MAIL_PORT": str(server.port)}) == {
        "code": OK,
        "id": 0,
        "message": "",
        "hint": "",
    }
    assert server.envelopes()[0]["tls"]
    harness.wait_for(lambda: server.commands()[-1] == "QUIT")


def test_a_failure_carries_the_answer_of_the_server(mail_call, tmp_path):
    (tmp_path / "a.txt").write_text("x")
    attachments = [{"path": str(tmp_path / "a.txt"), "delete_after_send": True}]
    refused, later = mail_call(
        {**MAIL, "to": [["550@x.org", None]], "attachments": attachments}, {**MAIL, "to": [["451@x.org", None]]}
    )
    assert (refused["code"], refused["id"], refused["hint"]) == (EFAILED, -1, "")
    assert refused["message"].endswith("RCPT TO: 550@x.org: 550 5.1.0 as asked by 550")
    assert later["code"] == EFAILED and "451 4.1.0" in later["message"] and "temporary" in later["hint"]
    assert (tmp_path / "a.txt").exists()


def test_the_rest_of_a_partly_accepted_mail_becomes_a_job(mail_call, db):
    assert mail_call({**MAIL, "to": [["ann@x.org", None], ["grey@x.org", None]]})["code"] == OK
    assert mail_call({**MAIL, "to": [["bob@x.org", None], ["550@x.org", None]]}, args=["-d", db.conninfo])["code"] == OK
    rows = db.sql("select fn, label, params::jsonb->'deliver_to' from deferred.__deferred order by id")
    assert rows == [("send_mail", "Grüße", ["grey@x.org"]), ("send_mail", "Grüße", ["550@x.org"])]
    assert [e["to"] for e in mail_call.server.envelopes()] == [["ann@x.org"], ["bob@x.org"]]


def test_a_rest_that_cannot_be_deferred_is_told(mail_call):
    answer = mail_call({**MAIL, "to": [["ann@x.org", None], ["550@x.org", None]]}, env={"DEFERRED_DB": "host=/nowhere"})
    assert answer["code"] == EFAILED and "550@x.org: 550" in answer["message"] and "do not send" in answer["hint"]
    assert mail_call.server.envelopes()[0]["to"] == ["ann@x.org"]


@pytest.mark.parametrize("own_context", [True, False])
def test_with_defer_the_mail_becomes_a_job_that_check_deferred_delivers(mail_call, db, own_context, tmp_path):
    (tmp_path / "a.txt").write_text("x")
    mail = {
        **MAIL,
        "bcc": [["dee@x.org", "D"]],
        "attachments": [{"path": str(tmp_path / "a.txt"), "delete_after_send": True}],
    }
    answer = mail_call(mail, args=["-d", db.conninfo] if own_context else [], config="defer = 1")
    assert answer["code"] == OK and answer["id"] > 0
    assert mail_call.server.commands() == []
    assert db.sql("select fn, label, queue from deferred.__deferred where id = %s", answer["id"]) == [
        ("send_mail", "Grüße", "default")
    ]
    done = db.run(["check_deferred", "--cnt", "0"])
    assert done.returncode == 0, done.stderr
    assert db.log(answer["id"]) == [(1, "ok")]
    assert mail_call.server.envelopes()[0]["to"] == ["ann@x.org", "dee@x.org"]
    assert mail_call.server.mail()["message-id"].startswith(f"<deferred.{answer['id']}.")
    assert not (tmp_path / "a.txt").exists()


def test_the_label_is_that_of_the_mail_or_its_subject(mail_call, db):
    long = "ü" * 2000
    answers = mail_call(
        {**MAIL, "label": "mine"}, {**MAIL, "subject": long}, {**MAIL, "subject": None}, config="defer = 1"
    )
    assert [a["code"] for a in answers] == [OK] * 3
    assert [r[0] for r in db.sql("select label from deferred.__deferred order by id")] == ["mine", "ü" * 500, None]
    assert db.sql("select params::jsonb->>'subject' from deferred.__deferred order by id")[1][0] == long


@pytest.mark.parametrize(
    "mail,words",
    [
        ({**MAIL, "to": []}, "the recipient is missing"),
        ({**MAIL, "text": None}, "text and html are both missing"),
        ({**MAIL, "to": [["ann", None]]}, "to: 'ann' is not a mail address"),
        ({**MAIL, "to": [["ann@x.org\r\nRCPT TO:<v@x.org>", None]]}, "to has a control character"),
        ({**MAIL, "from": ["a@b", "x\ny"]}, "from has a control character"),
        ({**MAIL, "subject": "a\rb"}, "subject has a control character"),
        ({**MAIL, "subject": "a\u0085b"}, "subject has a control character"),
        ({**MAIL, "attachments": [{"path": "a.txt"}]}, "has a path that is not absolute"),
        (
            {**MAIL, "attachments": [{"path": "/a", "name": "a\nb"}]},
            "attachment has a control character in its name",
        ),
    ],
    ids=range(9),
)
@pytest.mark.parametrize("config", ["defer = 1", "defer = 0"])
def test_a_malformed_mail_is_neither_stored_nor_sent(mail_call, db, mail, words, config):
    answer = mail_call(mail, config=config)
    assert answer["code"] == EINVAL and words in answer["message"]
    assert mail_call.server.commands() == [] and db.hot() == 0


def test_a_mail_with_options_no_job_can_have_is_not_sent(mail_call):
    """Not even where it needs no job, for the same call would be refused with `mail.defer = 1`."""
    answer = mail_call(MAIL, args=["-k", ""])
    assert answer["code"] == EINVAL and "option 'key' is empty" in answer["message"]
    assert mail_call.server.commands() == []


def test_text_with_quotes_and_control_characters_in_the_body_survives(mail_call):
    text = 'a "quoted" \\ body\twith\u0001 everything / and </b> 🎉\n'
    assert mail_call({**MAIL, "text": text})["code"] == OK
    assert mail_call.server.mail().get_body().get_content().replace("\r\n", "\n") == text


def test_a_wrong_configuration_is_told(mail_call, db, tmp_path):
    assert mail_call(MAIL, env={"DEFERRED_CONFIG": "/missing.conf"})["code"] == ECONFIG
    assert mail_call(MAIL, env={"DEFERRED_PLUGIN_DIR": str(tmp_path / "none")})["code"] == EPLUGIN
    assert mail_call(MAIL, config="defer = 1", env={"DEFERRED_DB": "host=/nowhere"})["code"] == ECONNECT
