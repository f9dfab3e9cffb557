"""The members of the JSON that commands print are those that deferred(1) lists, no more and no less."""

import json
import re

import pytest

import harness
from documents import read

FREE = {"params", "opts", "result", "tags", "schedule"}  # what is in them is the user's, or what "schedule ls" prints
VALUES = {"ls": {"ready", "delayed"}, "rule run": {"error"}}  # values of a member, and members of another case
SAME = {"function set": "function ls"}


def documented():
    """By command, each list of members that stands behind "JSON:"."""
    page, found = read("bin", "deferred", "deferred.1"), {}
    for entry in re.split(r"(?m)^\.It Cm ", page)[1:]:
        name = re.match(r"(?:[a-z]+(?: (?:ls|add|rm|set|show|next|test|run|pause|clear|rotate|enable|allow|for|sync|backfill)\b)?)?", entry)[0]
        lists = re.findall(r"(?ms)^JSON:(.*?)(?=^\.(?:It|El|Pp|Sh|Bl)|\Z)", entry)
        words = [set(re.findall(r"\b[a-z][a-z0-9_]*\b", re.sub(r"\(.*?\)", "", " ".join(re.findall(r"(?m)^\.(?:Ql|Pq or Ql) (.*)", text))))) for text in lists]
        if words:
            found.setdefault(name, []).extend(w - VALUES.get(name, set()) for w in words)
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
