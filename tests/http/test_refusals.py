"""What deferred_http says, and where, when it lets nobody in: to its operator, to who was refused, and nothing to strangers."""

import base64
import os
import re

import pytest

import front
import harness
from front import XML, now


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
    harness.wait_for(f.ready, 10)
    assert f.client().create("mail").status == 201
    assert f.stop() == 0, f.program.output()


def test_one_account_whose_keys_cannot_be_read_does_not_stop_the_others(db):
    f = front.Front(db)
    key, _ = f.add_account("second")
    db.sql("update deferred.__deferred_account set key1 = '\\x00', key2 = '\\x01' where name = 'second'")
    harness.wait_for(lambda: f.client("second", key).call("GET", "/?comp=list").status == 403, 10)
    load_accounts_anew(f, 8)
    assert f.client().create("mail").status == 201 and f.plain("GET", "/readyz").status == 200
    assert len(errors(f)) == 1 and "key 1 of account 'second' cannot be decrypted, and 1 more" in errors(f)[0], errors(f)
    db.sql("update deferred.__deferred_account set key2 = key1 where name = 'second'")
    load_accounts_anew(f, 3)
    assert len(errors(f)) == 1
    assert f.stop() == 0, f.program.output()
