"""Accounts of the HTTP front: the command, what the database holds of their keys, the key file."""

import base64
import json
import os
import re
import stat
import threading

import psycopg2
import pytest

import pg
from harness import run

OK, NOT_DONE, USAGE, DATA, CONFIG, NOPERM = 0, 1, 64, 65, 78, 77
AZURITE = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture
def accounts(db):
    """The database, with a key file of its own named in the config file."""
    db.key_file = os.path.join(db.dir, "http.key")
    db.config(f'http {{ key_file = "{db.key_file}" }}\n')
    return db


def account(db, *args, code=OK, says=(), **kw):
    done = db.run(["deferred", "account", *args], **kw)
    assert done.returncode == code, done
    for text in says:
        assert text in done.stderr, done
    if code != OK:
        assert done.stdout == "" and done.stderr.startswith("deferred: "), done
    return done.stdout


def add(db, name, *args, **kw):
    return json.loads(account(db, "add", name, "--json", *args, **kw))


def test_add_shows_two_keys_once_and_the_first_makes_the_key_file(accounts):
    done = accounts.run(["deferred", "account", "add", "acct"])
    assert done.returncode == OK
    assert re.fullmatch(r"account: acct\nkey 1:   (\S{44})\nkey 2:   (\S{44})\n", done.stdout)
    keys = re.findall(r"key \d:   (\S+)", done.stdout)
    assert keys[0] != keys[1] and [len(base64.b64decode(k, validate=True)) for k in keys] == [32, 32]
    assert done.stderr.startswith(f"deferred: created key file '{accounts.key_file}'\nhint: ")
    st = os.stat(accounts.key_file)
    assert stat.S_IMODE(st.st_mode) == 0o600
    master = open(accounts.key_file).read()
    second = accounts.run(["deferred", "account", "add", "other", "--json"])
    assert second.stderr == "" and open(accounts.key_file).read() == master
    assert set(json.loads(second.stdout)) == {"account", "key1", "key2"}


def test_the_connection_string_is_what_client_libraries_take(accounts):
    keys = add(accounts, "acct", "--endpoint", "https://queues.example.test:8443/")
    assert keys["connection_string"] == (
        "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey="
        + keys["key1"]
        + ";QueueEndpoint=https://queues.example.test:8443/acct;"
    )
    text = account(accounts, "rotate", "acct", "--key", "2", "--endpoint", "http://127.0.0.1:10001")
    key = re.search(r"key 2:   (\S+)", text).group(1)
    assert (
        f"connection string: "
        f"DefaultEndpointsProtocol=http;AccountName=acct;AccountKey={key};QueueEndpoint=http://127.0.0.1:10001/acct;\n"
        in text
    )
    assert "key 1" not in text


@pytest.mark.skipif(not pg.can_dump(), reason="pg_dump is older than the server")
def test_the_database_holds_no_key_in_clear(accounts):
    keys = add(accounts, "acct")
    dump = run(["pg_dump", "-d", accounts.conninfo]).stdout
    assert "acct" in dump
    for key in (keys["key1"], keys["key2"], open(accounts.key_file).read().strip()):
        raw = base64.b64decode(key)
        assert key not in dump and raw.hex() not in dump
    assert account(accounts, "ls").count(keys["key1"]) == 0


def test_ls_names_accounts_their_state_and_the_age_of_their_keys(accounts):
    assert account(accounts, "ls") == "" and json.loads(account(accounts, "ls", "--json")) == []
    add(accounts, "zoo")
    add(accounts, "acct")
    account(accounts, "disable", "zoo")
    rows = json.loads(account(accounts, "ls", "--json"))
    assert [(r["account"], r["enabled"]) for r in rows] == [("acct", True), ("zoo", False)]
    assert set(rows[0]) == {"account", "enabled", "created_at", "key1_since", "key2_since", "functions"}
    assert re.match(
        r"ACCOUNT +STATE +ADDED +KEY 1 OF +KEY 2 OF +FUNCTIONS\nacct +enabled .*\nzoo +disabled ",
        account(accounts, "ls"),
    )
    account(accounts, "enable", "zoo")
    assert accounts.sql("select name, enabled from deferred.__deferred_account order by 1") == [
        ("acct", True),
        ("zoo", True),
    ]


def test_an_account_is_given_functions_by_name_and_has_none_at_first(accounts):
    add(accounts, "acct")
    add(accounts, "other")
    functions = lambda: [r["functions"] for r in json.loads(account(accounts, "ls", "--json"))]  # noqa: E731
    assert functions() == [[], []]
    assert json.loads(account(accounts, "allow", "acct", "resize", "mail.*", "resize", "--json")) == {
        "account": "acct",
        "functions": ["mail.*", "resize"],
    }
    assert account(accounts, "allow", "acct", "echo") == ""
    assert functions() == [["echo", "mail.*", "resize"], []]
    assert re.search(r"(?m)^acct .* echo mail\.\* resize$", account(accounts, "ls"))
    # What is misspelt takes nothing away, and says so.
    account(
        accounts,
        "disallow",
        "acct",
        "echo",
        "mail.send",
        code=NOT_DONE,
        says=["account 'acct' has no right to 'mail.send'", "deferred account ls"],
    )
    assert functions() == [["echo", "mail.*", "resize"], []]
    assert json.loads(account(accounts, "disallow", "acct", "mail.*", "echo", "--json")) == {
        "account": "acct",
        "functions": ["resize"],
    }
    for bad in ("*", "a b", "1x", "mail*", "a'); drop table x; --", "", "x" * 128):
        account(accounts, "allow", "acct", bad, code=DATA, says=["function name", "PREFIX.*"])
    account(accounts, "allow", "nobody", "echo", code=NOT_DONE, says=["account 'nobody' does not exist"])
    account(accounts, "disallow", "nobody", "echo", code=NOT_DONE, says=["account 'nobody' does not exist"])
    assert functions() == [["resize"], []]
    # Who gets the name later does not get the rights.
    account(accounts, "rm", "acct")
    add(accounts, "acct")
    assert functions() == [[], []]


def test_rotate_replaces_one_key_and_leaves_the_other(accounts):
    add(accounts, "acct")
    before = accounts.sql("select key1, key2, key1_since, key2_since from deferred.__deferred_account")[0]
    new = json.loads(account(accounts, "rotate", "acct", "--key", "1", "--json"))
    after = accounts.sql("select key1, key2, key1_since, key2_since from deferred.__deferred_account")[0]
    assert set(new) == {"account", "key1"}
    assert bytes(after[0]) != bytes(before[0]) and bytes(after[1]) == bytes(before[1])
    assert after[2] > before[2] and after[3] == before[3]


def test_keys_of_another_service_are_taken_from_standard_input_or_a_file(accounts):
    got = add(accounts, "devstoreaccount1", "--keys", "-", input=AZURITE + "\n")
    assert got["key1"] == AZURITE and len(got["key2"]) == 44
    path = os.path.join(accounts.dir, "keys")
    with open(path, "w") as f:
        f.write("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\r\n" + AZURITE)
    assert add(accounts, "sally", "--keys", path)["key2"] == AZURITE
    account(
        accounts,
        "add",
        "x12",
        "--keys",
        "-",
        input="AAAA\n",
        code=DATA,
        says=["line 1 of 'standard input' is not a key", "16 to 64 bytes in base64"],
    )
    account(accounts, "add", "x12", "--keys", "-", input="", code=DATA, says=["does not hold a key"])
    account(accounts, "add", "x12", "--keys", "/nonexistent", code=DATA, says=["file '/nonexistent' cannot be opened"])
    assert accounts.one("select count(*) from deferred.__deferred_account") == 2


def test_a_key_file_that_is_missing_wrong_or_open_to_others_stops_what_needs_it(accounts):
    add(accounts, "acct")
    os.rename(accounts.key_file, accounts.key_file + ".away")
    for args in (("add", "other"), ("rotate", "acct", "--key", "1")):
        account(
            accounts,
            *args,
            code=CONFIG,
            says=[f"the key file is missing: '{accounts.key_file}'", "get it back from a copy"],
        )
    assert not os.path.exists(accounts.key_file)
    with open(accounts.key_file, "w") as f:
        os.fchmod(f.fileno(), 0o600)
        f.write(base64.b64encode(b"x" * 32).decode() + "\n")
    account(accounts, "add", "other", code=CONFIG, says=["this is another key file"])
    os.replace(accounts.key_file + ".away", accounts.key_file)
    os.chmod(accounts.key_file, 0o644)
    account(accounts, "add", "other", code=CONFIG, says=["has mode 0644", "chmod 0600"])
    os.chmod(accounts.key_file, 0o600)
    add(accounts, "other")
    # without accounts there is nothing a new key file could lose
    account(accounts, "rm", "acct")
    account(accounts, "rm", "other")
    os.unlink(accounts.key_file)
    done = accounts.run(["deferred", "account", "add", "acct"])
    assert done.returncode == OK and "created key file" in done.stderr


def test_two_first_accounts_at_once_share_one_key_file(accounts):
    results = []
    threads = [
        threading.Thread(target=lambda i=i: results.append(accounts.run(["deferred", "account", "add", f"acct{i}"])))
        for i in range(6)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [r.returncode for r in results] == [OK] * 6, results
    assert os.listdir(accounts.dir).count("http.key") == 1 and not [
        n for n in os.listdir(accounts.dir) if n.startswith("http.key.")
    ]
    # all can be decrypted with it: else this would be refused
    for i in range(5):
        account(accounts, "rm", f"acct{i}")
    account(accounts, "add", "more")


def test_an_account_is_added_once_and_removed_once(accounts):
    add(accounts, "acct")
    account(accounts, "add", "acct", code=NOT_DONE, says=["account 'acct' exists already"])
    assert json.loads(account(accounts, "rm", "acct", "--json")) == {"account": "acct", "removed": True}
    for args in (("rm", "acct"), ("rotate", "acct", "--key", "1"), ("enable", "acct")):
        account(accounts, *args, code=NOT_DONE, says=["account 'acct' does not exist"])


@pytest.mark.parametrize(
    "args, says",
    [
        ((), "argument is missing: one of add, ls, rotate, enable, disable, allow, disallow and rm"),
        (("sell", "acct"), "argument 'sell' is not one of"),
        (("add",), "argument NAME is missing"),
        (("rm",), "argument NAME is missing"),
        (("add", "a", "b"), "argument 'b' is not expected"),
        (("ls", "acct"), "argument 'acct' is not expected"),
        (("add", "ab"), "3 to 24"),
        (("add", "a" * 25), "3 to 24"),
        (("add", "Acct"), "3 to 24"),
        (("add", "a-ct"), "3 to 24"),
        (("rotate", "acct"), "--key 1 or --key 2"),
        (("rotate", "acct", "--key", "3"), "from 1 to 2"),
        (("add", "acct", "--key", "1"), "option '--keys' is abbreviated"),
        (("rotate", "acct", "--key", "1", "--keys", "-"), "option '--keys' is unknown"),
        (("ls", "--endpoint", "http://h"), "option '--endpoint' is unknown"),
        (("add", "acct", "--endpoint", "ftp://h"), "is not an address"),
        (("add", "acct", "--endpoint", "http://"), "is not an address"),
        (("add", "acct", "--endpoint", "http://h;AccountKey=x"), "is not an address"),
        (("allow", "acct"), "argument FUNCTION is missing"),
        (("disallow", "acct"), "argument FUNCTION is missing"),
        (("allow",), "argument NAME is missing"),
        (("allow", "acct", "f", "--keys", "-"), "option '--keys' is unknown"),
    ],
)
def test_wrong_usage_is_told(accounts, args, says):
    account(accounts, *args, code=USAGE, says=[says, 'hint: '])
    assert not os.path.exists(accounts.key_file)


def test_accounts_are_for_owners_and_the_front_reads_them(accounts):
    add(accounts, "acct")
    accounts.sql(
        "create role front_login login in role deferred_http; create role worker_login login in role deferred_worker;"
        "create role viewer_login login in role deferred_viewer"
    )
    try:
        for login in ("worker_login", "viewer_login"):
            env = {"DEFERRED_DB": accounts.conninfo.replace("user=deferred ", f"user={login} ")}
            for args in (("add", "other"), ("ls",), ("rm", "acct")):
                account(accounts, *args, code=NOPERM, env=env)
            with psycopg2.connect(env["DEFERRED_DB"]) as c, pytest.raises(psycopg2.errors.InsufficientPrivilege):
                c.cursor().execute("select * from deferred.__deferred_account")
        env = {"DEFERRED_DB": accounts.conninfo.replace("user=deferred ", "user=front_login ")}
        account(accounts, "ls", env=env)
        account(accounts, "rm", "acct", code=NOPERM, env=env)
        account(accounts, "rotate", "acct", "--key", "1", code=NOPERM, env=env)
        account(accounts, "allow", "acct", "echo", code=NOPERM, env=env)
        account(accounts, "disallow", "acct", "echo", code=NOPERM, env=env)
        with psycopg2.connect(env["DEFERRED_DB"]) as c, pytest.raises(psycopg2.errors.InsufficientPrivilege):
            c.cursor().execute("select * from deferred.__deferred_account")
    finally:
        accounts.sql("drop role front_login, worker_login, viewer_login")
