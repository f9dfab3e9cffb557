"""The members of the JSON that commands print are those that the pages of docs/man list, no more and no less."""

import glob
import os
import re

import pytest

import harness
import pg
from documents import read, section

FREE = {"params", "opts", "result", "tags", "schedule"}  # what is in them is the user's, or what "schedule ls" prints
VALUES = {"ls": {"ready", "delayed"}, "rule run": {"error"}}  # values of a member, and members of another case
SAME = {"function set": "function", "function ls": "function"}


def documented():
    """By command, the lists of members in the sections JSON OUTPUT."""
    found = {}
    for path in sorted(glob.glob(os.path.join(pg.TOP, "docs", "man", "*.1"))):
        command, page = os.path.basename(path).removeprefix("deferred-").removesuffix(".1"), read(path)
        if "\n.Sh JSON OUTPUT\n" not in page:
            continue
        alone, *entries = re.split(r"(?m)^\.It Cm ", section(page, "JSON OUTPUT"))
        texts = [(command, text) for text in alone.split("\n.Pp\n")]
        for entry in entries:
            head, text = entry.split("\n", 1)
            texts += [(f"{command} {word}", text) for word in re.findall(r"[a-z]+", head)]
        for name, text in texts:
            quoted = " ".join(re.findall(r"(?m)^\.(?:It )?Ql (.*)", re.sub(r"\(.*?\)", "", text)))
            words = set(re.findall(r"\b[a-z][a-z0-9_]*\b", quoted))
            if words:
                found.setdefault(name, []).append(words - VALUES.get(name, set()))
    return found


def members(value):
    """Names of all members, at any depth."""
    if isinstance(value, list):
        return set().union(*map(members, value))
    if isinstance(value, dict):
        return set(value).union(*(members(v) for k, v in value.items() if k not in FREE))
    return set()


@pytest.fixture
def full(db):
    """A database in which each list has something in it."""
    db.sql("create table public.orders as select 1 as id")
    db.defer("noop", label="x", tags=["a"])
    db.defer("fail", max_attempts=1)
    assert db.run(["check_deferred", "--cnt", "2"]).returncode in (0, 1)
    db.sql("select deferred.__function_set('noop', '{\"max_running\": 5}')")
    for args in (["schedule", "set", "nightly", "0 3 * * *", "noop"], ["rule", "add", "late", "noop", "select id from public.orders", "--key", "id"]):
        assert db.run(["deferred", *args]).returncode == 0, args
    db.defer("noop", delay="1h")
    return db


@pytest.mark.parametrize("command", [
    "add noop", "ls", "ls --state done", "rule ls", "rule test late", "rule run late", "schedule ls", "schedule show nightly", "schedule next nightly",
    "schedule run nightly", "function ls", "function set noop --rate 5/s", "account ls", "queue pause default", "queue clear default --yes",
    "cancel 3", "retry 2", "index ls"])
def test_a_list_of_members_is_that_of_the_man_page(full, command):
    done = full.run(["deferred", *command.split(), "--json"])
    assert done.returncode in (0, 1, 2), done.stderr
    name = next(n for n in (" ".join(command.split()[:2]), command.split()[0]) if n in documented() or n in SAME)
    lists = documented()[SAME.get(name, name)]
    printed = members(harness.json_once(done.stdout))
    if printed:
        assert printed in lists, [(sorted(printed - l), sorted(l - printed)) for l in lists]
