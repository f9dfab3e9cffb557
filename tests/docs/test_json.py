"""The members of the JSON that commands print are those that the pages of docs/man list, no more and no less.

In a section JSON OUTPUT each .Ql is the name of a member, and nothing else is. Each .It Cm lists
what a subcommand prints. A paragraph that begins with "With .Fl" lists what the command prints with that option. "As in
.Xr" and "list of .Cm" include the list of another command. "Each option of the job" stands for those that the row of
a job has."""

import glob
import os
import pprint
import random
import re
import shlex

import pytest

import harness
import pg
from documents import read, section
from job_options import SPANS, STORED
from made_log import history, starts, write_log

# What is in these members is the user's.
FREE = {"params", "opts", "metadata", "plan", "examples", "states", "settings"}
# Commands that print no JSON of their own: what they print is SQL, spans, or text that has a form of its own.
OTHER = {"metrics", "spans"}
# Members that need a log of more rows than a test writes.
RARE = {"log_reaches_further"}


def lists_of(command, text):
    """Yields (key, text) of each list in a section."""
    alone, *entries = re.split(r"(?m)^\.It Cm ", text)
    for paragraph in [] if entries else alone.split("\n.Pp\n"):
        option = re.match(r"With\n\.Fl (-[a-z-]+)", paragraph)
        yield command + (" -" + option[1] if option else ""), paragraph
    for entry in entries:
        head, body = entry.split("\n", 1)
        for word in re.findall(r"[a-z]+", head):
            yield f"{command} {word}", body


def documented():
    """By command, the set of members."""
    own, others = {}, {}
    for path in sorted(glob.glob(os.path.join(pg.TOP, "docs", "man", "*.1"))):
        page, command = read(path), os.path.basename(path).removeprefix("deferred-").removesuffix(".1")
        if "\n.Sh JSON OUTPUT\n" not in page:
            continue
        for key, text in lists_of(command, section(page, "JSON OUTPUT")):
            names = " ".join(re.findall(r"(?m)^\.(?:It )?Ql (.*)", text))
            own.setdefault(key, set()).update(re.findall(r"[a-z][a-z0-9_]*", names))
            if "\neach option of the job" in text:
                own[key] |= {name + "_ms" if name in SPANS else name for name in STORED}
            for word in re.findall(r"list of\n\.Cm ([a-z]+)", text):
                others.setdefault(key, set()).add(f"{command} {word}")
            for name, word in re.findall(
                r"\b[Aa]s(?: in)?\n\.Xr deferred-([a-z]+) 1(?: [.,;])*(?:\n\.(?:Cm|Fl) ([a-z-]+))?", text
            ):
                others.setdefault(key, set()).add(f"{name} {'-' if word[:1] == '-' else ''}{word}".strip())
    return {key: names.union(*(own[other] for other in others.get(key, ()))) for key, names in own.items()}


LISTS = documented()


def members(value):
    """Names of all members, at any depth."""
    if isinstance(value, list):
        return set().union(*map(members, value))
    if isinstance(value, dict):
        return set(value).union(*(members(v) for k, v in value.items() if k not in FREE))
    return set()


FLOW = '{"jobs": [{"fn": "noop", "name": "first"}, {"fn": "noop", "name": "second", "after": ["first"]}]}'
ORDERS = [
    ["schedule", "set", "nightly", "0 3 * * *", "noop"],
    ["schedule", "run", "nightly"],
    ["rule", "add", "late", "noop", "select id from public.orders", "--key", "id"],
    ["rule", "add", "wrong", "noop", "select 1 / (id - 1) as id from public.orders", "--key", "id"],
    ["queue", "set", "limited", "--create", "--max-running", "1"],
    ["queue", "set", "tenant.*", "--rate", "5/s"],
    ["function", "set", "noop", "--max-running", "5"],
    ["account", "add", "shop"],
    ["account", "add", "old"],
    ["token", "add", "shop", "--expires", "90d"],
    ["token", "add", "old"],
    ["index", "add", "label"],
    ["advise", "--within", "20s", "--queue", "mail"],
    ["schedule", "set", "idle", "@daily", "noop"],
    ["schedule", "pause", "idle"],
    ["function", "set", "fail", "--max-running", "3"],
]
CASES = {
    "account add": ["account add new", "account add more --endpoint http://127.0.0.1:1"],
    "account allow": ["account allow shop noop"],
    "account disable": ["account disable shop"],
    "account disallow": ["account disallow shop noop"],
    "account enable": ["account enable shop"],
    "account ls": ["account ls"],
    "account rotate": ["account rotate shop --key 1", "account rotate shop --key 2 --endpoint http://127.0.0.1:1"],
    "add": ["add noop", "--db host=/nowhere add noop"],
    "add --stdin": ["add --stdin"],
    "advise": ["advise --queue default", "advise --within 2min --line '*/2 * * * * --cnt 4'"],
    "alert": ["alert --print"],
    "alert --list": ["alert --list"],
    "cancel --dry-run": ["cancel --dry-run --fn noop"],
    "doctor": ["doctor"],
    "event ls": ["event ls"],
    "spool ls": ["spool ls"],
    "spool drain": ["spool drain"],
    "spool retry": ["spool retry"],
    "event send": ["event send paid 1"],
    "flow add": ["flow add {file}"],
    "flow close": ["flow close {flow}"],
    "flow ls": ["flow ls"],
    "flow open": ["flow open {file}"],
    "flow show": ["flow show {flow}"],
    "fold": ["fold"],
    "function ls": ["function ls"],
    "function resume": ["function resume fail"],
    "function set": ["function set noop --rate 5/s"],
    "functions": ["functions"],
    "graph": ["graph {flow}"],
    "index add": ["index add params.a"],
    "index ls": ["index ls"],
    "ls": ["ls", "ls --state done", "ls --state dead"],
    "ls --running": ["ls --running"],
    "migrate --dry-run": ["migrate --dry-run --db '{fresh}'"],
    "migrate": ["migrate --db '{fresh}'"],
    "purge": ["purge --older-than 90d"],
    "queue ls": ["queue ls"],
    "queue patterns": ["queue patterns"],
    "queue pause": ["queue pause limited"],
    "queue resume": ["queue resume limited"],
    "queue set": ["queue set default --max-attempts 5"],
    "replay": ["replay {dead}", "replay {done}"],
    "retry --dry-run": ["retry --dry-run --fn fail"],
    "rule add": ["rule add other noop 'select 1 as id' --key id"],
    "rule ls": ["rule ls"],
    "rule run": ["rule run late wrong"],
    "rule test": ["rule test late"],
    "run": ["run echo", "run fail"],
    "schedule backfill": ["schedule backfill nightly --from 2026-01-01 --to 2026-01-03 --yes"],
    "schedule ls": ["schedule ls"],
    "schedule next": ["schedule next nightly"],
    "schedule pause": ["schedule pause nightly"],
    "schedule resume": ["schedule resume idle"],
    "schedule run": ["schedule run nightly"],
    "schedule set": ["schedule set weekly @weekly noop"],
    "schedule show": ["schedule show nightly"],
    "schedule sync": ["schedule sync {schedules}"],
    "shard for": ["shard for x"],
    "shard ls": ["shard ls"],
    "show": ["show {held}", "show {child}", "show {dead}", "show {parent}", "show {awaits}"],
    "simulate": ["simulate"],
    "status": ["status"],
    "status --check": ["status --check"],
    "token add": ["token add new"],
    "token ls": ["token ls"],
    "token rotate": ["token rotate shop --grace 1h"],
    "top": ["top"],
    "wait": ["wait {dead}"],
    "why": ["why"],
    # These end what others show.
    "flow release": ["flow release {child}"],
    "flow cancel": ["flow cancel {flow}"],
    "flow retry": ["flow retry {flow}"],
    "cancel": ["cancel {delayed}", "cancel --fn strange"],
    "retry": ["retry {dead}", "retry --fn fail"],
    "update": ["update {dead} --priority 1", "update --fn fail --priority 2"],
    "update --dry-run": ["update --dry-run --fn fail --priority 2"],
    "function rm": ["function rm noop"],
    "queue clear": ["queue clear limited --yes"],
    "queue rm": ["queue rm limited"],
    "account rm": ["account rm old"],
    "token rm": ["token rm old"],
    "rule rm": ["rule rm other"],
    "schedule rm": ["schedule rm weekly"],
    "index rm": ["index rm params.a"],
}
# Commands of which each call prints every member, by a statement of its own.
ALIKE = {"ls"}


@pytest.fixture
def full(db, tmp_path, wait_for):
    """A database in which each list has something in it, and the names of what is in it."""
    db.env["DEFERRED_HTTP_KEY_FILE"] = str(tmp_path / "key")
    db.env["DEFERRED_SPOOL"] = str(tmp_path / "spool")
    (tmp_path / "spool").mkdir(mode=0o700)
    db.config(
        f'shard "a" {{ number = 1 conninfo = "{db.conninfo}" }}\nshard "b" {{ number = 2 conninfo = "host=/nowhere" '
        f'}}\n'
    )
    assert db.run(["deferred", "migrate", "--shard", "a"], env={"DEFERRED_DB": ""}).returncode == 0
    standby = db.spawn(["pg_receivewal", "-D", str(tmp_path), "--no-loop"], env=db.cluster.env())
    wait_for(lambda: db.one("select count(*) from pg_stat_replication") > 0)
    starts(db, "a", "/run/d.pid", 300, 0)
    starts(db, "b", "/run/d.pid", 300, 25)
    write_log(db, history(random.Random(1), 0.5, lambda rng: 4.0, 2), "mail")
    db.sql("create table public.orders as select 1 as id")
    names = {"delayed": db.defer("noop", delay="1h"), "dead": db.defer("fail", max_attempts=1)}
    names["done"] = db.defer("echo", label="x", tags=["a"])
    gone = db.spawn(["check_deferred", "--loop", "--pidfile", db.pidfile + ".gone"])
    wait_for(
        lambda: db.one(
            "select count(*) from deferred.__deferred_log where job_id = any (array[%s, %s])",
            names["dead"],
            names["done"],
        )
        == 2
    )
    gone.kill()
    names["fresh"] = db.cluster.create_db(db.name + "_fresh")
    for words in ORDERS:
        done = db.run(["deferred", *words])
        assert done.returncode == 0, (words, done.stderr)
    db.sql(
        "update deferred.__deferred_function set broken_at = now(), own_max_running = max_running where name = 'fail'"
    )
    starts(db, "c", "/run/c.pid", 0, 0, mode="listen")
    db.sql("update deferred.__deferred_worker set queues = '{mail}', runners = 1 where host = 'c'")
    names["held"] = db.defer("noop")
    db.hold(names["held"])
    db.sql(
        "insert into deferred.__deferred_progress (job_id, attempt, reported_at) select id, attempt, now() "
        "from deferred.job where id = %s",
        names["held"],
    )
    names["awaits"] = db.defer("noop", wait_for={"event": "approved", "within": "1h"})
    db.sql(
        "insert into deferred.__deferred_step (job_id, name, value, bytes, number, attempt, resets) "
        "values (%s, 'a', '1', 1, 1, 1, false)",
        names["held"],
    )
    db.defer("nosuch")
    db.defer("strange")
    for name, text in (("file", FLOW), ("schedules", 'schedule "daily" { rule = "@daily" function = noop }')):
        names[name] = str(tmp_path / name)
        with open(names[name], "w", encoding="utf-8") as f:
            f.write(text)
    names["flow"] = int(db.run(["deferred", "flow", "add", names["file"]]).stdout)
    names["parent"], names["child"] = [
        j for j, in db.sql("select job from deferred.__deferred_member where flow = %s order by job", names["flow"])
    ]
    db.names = names
    yield db
    standby.kill()
    db.sql(f"drop database {db.name}_fresh")


def test_each_command_with_json_has_its_list():
    described = harness.run([harness.program("deferred"), "--describe"]).stdout
    commands = set(re.findall(r"(?m)^deferred ([a-z ]+)\toption\t--json", described))
    assert commands - OTHER == {key.split(" --")[0] for key in LISTS}


def test_lists_of_members_are_those_of_the_man_pages(full):
    wrong = {}
    for key, calls in CASES.items():
        printed = set()
        for words in calls:
            done = full.run(
                ["deferred", *shlex.split(words.format(**full.names)), "--json"],
                input="{\"fn\": \"noop\"}\n" if "stdin" in words else "",
            )
            found = members(harness.json_once(done.stdout))
            if key in ALIKE and found - RARE != LISTS[key] - RARE:
                wrong[words] = sorted(found ^ LISTS[key])
            printed |= found
        if printed - RARE != LISTS[key] - RARE:
            wrong[key] = sorted(printed - LISTS[key]), sorted(LISTS[key] - printed)
    assert not wrong, pprint.pformat(wrong)
    assert set(CASES) == set(LISTS)
