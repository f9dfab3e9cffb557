"""Several databases: each has its number, jobs are spread over them or go where their route says,
and one that is down holds up nobody else."""

import json
import os

import psycopg2
import pytest

import harness
import pg

OK, USAGE, UNAVAILABLE, CONFIG = 0, 64, 69, 78
IDS = 10**13


class Shards:
    """a and c beside the database of the test, b on a server of its own."""

    def __init__(self, db):
        self.db, self.accepting, self.numbers = db, {"a": 1, "b": 1, "c": 0}, {"a": 1, "b": 2, "c": 3}
        self.other = pg.Cluster(os.path.join(harness.root(), db.name + "_b")).start()
        self.conninfo = {
            "a": db.cluster.create_db(db.name + "_a"),
            "b": self.other.create_db("b"),
            "c": db.cluster.create_db(db.name + "_c"),
        }
        self.write()

    def write(self):
        self.db.config(
            "".join(
                f'shard "{n}" {{ number = {self.numbers[n]} conninfo = "{self.conninfo[n]}" accepting = '
                f'{self.accepting[n]} }}\n'
                for n in "abc"
            )
        )

    def __call__(self, *words, program="deferred", code=OK):
        done = self.db.run([program, *words], env={"DEFERRED_DB": ""})
        assert done.returncode == code, done
        return done

    def ids(self, *words):
        return [int(line) for line in self("add", *words).stdout.split()]

    def sql(self, name, query, *args):
        with psycopg2.connect(self.conninfo[name]) as connection, connection.cursor() as cursor:
            cursor.execute(query, args)
            return cursor.fetchall()


@pytest.fixture
def shards(db):
    made = Shards(db)
    yield made
    made.other.stop()
    for name in "ac":
        db.sql(f"drop database {db.name}_{name} with (force)")


def where(job):
    return {1: "a", 2: "b", 3: "c"}[job // IDS]


def test_jobs_are_spread_found_by_their_ids_and_run_by_the_workers_of_their_shard(shards, db):
    said = shards("migrate", "--all-shards").stdout
    assert [f"shard {n}: number {i}" in said for n, i in zip("abc", (1, 2, 3))] == [True] * 3
    assert shards.sql("c", "select nextval('deferred.__deferred_id_seq')") == [(3 * IDS + 1,)]
    assert "number" not in shards("migrate", "--all-shards").stdout
    # What has no route is spread over those that accept jobs; what has one, or a key, stays together.
    jobs = [job for _ in range(24) for job in shards.ids("noop")]
    assert {where(job) for job in jobs} == {"a", "b"}
    assert shards.ids("noop", "--shard", "c")[0] // IDS == 3
    routes = {
        route: shards("shard", "for", route).stdout.strip() for route in ("customer-17", "customer-18", "k\u00f6ln")
    }
    assert routes == {"customer-17": "a", "customer-18": "b", "k\u00f6ln": "b"}
    for route, shard in routes.items():
        assert {
            where(job) for way in ("--route", "--key", "--concurrency-key") for job in shards.ids("noop", way, route)
        } == {shard}
    again = [shards.ids("noop", "--key", "customer-17") for _ in range(2)]
    assert again[0] == again[1]
    assert where(shards.ids("noop", "--key", "customer-17", "--route", "customer-18")[0]) == "b"
    # A job that waits goes where those are that it waits for.
    first = next(job for job in jobs if where(job) == "b")
    (waits,) = shards.ids("noop", "--after", str(first))
    assert where(waits) == "b" and f"waits for   {first}" in shards("show", str(waits)).stdout
    apart = next(job for job in jobs if where(job) == "a")
    assert (
        f"job {first} is in shard 'b', not in 'a'"
        in shards("add", "noop", "--after", f"{apart},{first}", code=USAGE).stderr
    )
    assert (
        shards("cancel", str(apart)).stdout == f"{apart} cancelled\n"
        and '"cancelled"' in shards("show", "--json", str(apart)).stdout
    )
    assert (
        "none of the 3 shards" in shards("show", "17", code=USAGE).stderr
        and "does not exist" in shards("show", str(3 * IDS + 17), code=1).stderr
    )
    # All of them are asked, or one has to be named.
    status = json.loads(shards("status", "--json").stdout)
    assert list(status) == ["a", "b", "c"] and sum(q["ready"] for s in status.values() for q in s["queues"]) > 24
    listed = json.loads(shards("ls", "--json").stdout)
    assert {where(job["id"]) for name in listed for job in listed[name]} == {"a", "b", "c"}
    assert [line for line in shards("status").stdout.splitlines() if line.startswith("# ")] == [
        "# shard a",
        "# shard b",
        "# shard c",
    ]
    assert "--shard NAME, or ask all with --all-shards" in shards("queue", "ls", code=USAGE).stderr
    shards("queue", "set", "default", "--max-running", "2", "--all-shards")
    assert [
        shards.sql(n, "select max_running from deferred.__deferred_queue where name = 'default'") for n in "abc"
    ] == [[(2,)]] * 3
    assert "no worker was ever seen" in shards("why", str(first)).stdout
    assert (
        "no database is named" in shards("doctor", code=2).stdout
        and "\nok      connection" in db.run(["deferred", "doctor", "--shard", "b"], env={"DEFERRED_DB": ""}).stdout
    )
    # A worker serves one.
    for program in ("check_deferred", "deferred_http", "deferred_web"):
        assert "no shard is named; hint: --shard NAME" in shards(program=program, code=CONFIG).stderr
    for name in "abc":
        run = shards("--cnt", "0", "--shard", name, program="check_deferred")
        assert "run ended" in run.stderr and shards.sql(name, "select count(*) from deferred.__deferred_hot") == [(0,)]
        assert shards.sql(name, "select * from deferred.check_ledger()") == []
    assert [
        (s["name"], s["number"], s["accepting"], s["ready"]) for s in json.loads(shards("shard", "ls", "--json").stdout)
    ] == [("a", 1, True, 0), ("b", 2, True, 0), ("c", 3, False, 0)]


def test_one_that_is_down_holds_up_only_what_is_its_own_and_one_is_drained(shards):
    shards("migrate", "--all-shards")
    (kept,) = shards.ids("noop", "--key", "customer-18")
    assert where(kept) == "b"
    shards.other.stop("immediate")
    assert {where(job) for _ in range(8) for job in shards.ids("noop")} == {"a"}
    assert where(shards.ids("noop", "--key", "customer-17")[0]) == "a"
    refused = shards("add", "noop", "--key", "customer-18", code=UNAVAILABLE).stderr
    assert "shard 'b', which has 'customer-18': " in refused
    told = shards("status", "--json", code=UNAVAILABLE)
    assert {n: s is not None for n, s in json.loads(told.stdout).items()} == {
        "a": True,
        "b": False,
        "c": True,
    } and "shard 'b'" in told.stderr
    assert [("error" in s) for s in json.loads(shards("shard", "ls", "--json", code=UNAVAILABLE).stdout)] == [
        False,
        True,
        False,
    ]
    assert "\nb " in shards("shard", "ls", code=UNAVAILABLE).stdout
    shards.other.start()
    # It is to go: it takes nothing more, and is emptied.
    shards.accepting["b"] = 0
    shards.write()
    assert where(shards.ids("noop", "--key", "customer-18")[0]) == "a" and {
        where(job) for _ in range(8) for job in shards.ids("noop")
    } == {"a"}
    shards("--cnt", "0", "--shard", "b", program="check_deferred")
    assert '"done"' in shards("show", "--json", str(kept)).stdout
    shards.accepting["a"] = 0
    shards.write()
    assert "no shard accepts jobs" in shards("add", "noop", code=1).stderr


def test_a_file_of_jobs_is_spread_by_line(shards, db, tmp_path):
    """Each goes where it would go alone; one transaction a shard. Ids come in the order of the lines."""
    shards("migrate", "--all-shards")

    def add(lines, code=OK, *words):
        path = tmp_path / "jobs"
        path.write_text(
            "".join(line if isinstance(line, str) else json.dumps({"fn": "noop", **line}) + "\n" for line in lines)
        )
        with open(path) as f:
            done = db.run(["deferred", "add", "--stdin", *words], env={"DEFERRED_DB": ""}, stdin=f)
        assert done.returncode == code, done
        return done

    parent = {"a": None, "b": None}
    while not all(parent.values()):
        (job,) = shards.ids("noop")
        parent[where(job)] = job
    lines = [
        {"key": "customer-17"},
        "\n",
        {"key": "customer-18", "params": {"n": 12345678901234567890}},
        {"concurrency_key": "customer-18", "key": "customer-17"},
        {"after": parent["a"]},
        {"after": [parent["b"]]},
        {"after": [{"job": parent["a"], "on": "ended"}], "key": "customer-18"},
        {},
        {"label": "k\u00f6ln"},
    ]
    ids = [int(i) for i in add(lines).stdout.split()]
    assert (
        [where(i) for i in ids[:6]] == ["a", "b", "b", "a", "b", "a"]
        and where(ids[6]) == where(ids[7])
        and len(ids) == 8
    )
    assert shards.sql("b", "select params::text from deferred.__deferred where id = %s", ids[1]) == [
        ('{"n": 12345678901234567890}',)
    ]
    some = [int(i) for i in json.loads(add([{}] * 5000, OK, "--json").stdout)]
    assert {where(i) for i in some} == {"a", "b"}
    # What is wrong with a line is found before any is stored, where that can be; else its shard stores none.
    before = [shards.sql(n, "select count(*) from deferred.__deferred")[0][0] for n in "ab"]
    assert "line 3: no JSON object: [1]" in add([{}, {"key": "customer-18"}, "[1]\n"], code=65).stderr
    assert "line 2: job 17 is in none of the 3 shards" in add([{}, {"after": 17}], code=65).stderr
    told = add([{"key": "customer-18", "priority": "x"}, {"key": "customer-17"}, "\n", {"key": "customer-18"}], code=65)
    assert "line 1: " in told.stderr and "shard 'b' returned no ids for 2 lines, the first is line 1" in told.stderr
    assert told.stdout.split()[0] == told.stdout.split()[2] == "-" and int(told.stdout.split()[1]) == ids[0]
    assert [shards.sql(n, "select count(*) from deferred.__deferred")[0][0] for n in "ab"] == before
    # One that is down takes what is its own, and nothing else.
    shards.other.stop("immediate")
    told = add([{"key": "customer-18"}, {}, {"key": "fresh", "concurrency_key": "customer-17"}], code=UNAVAILABLE)
    assert "shard 'b' returned no ids for 1 line, the first is line 1" in told.stderr
    out = told.stdout.split()
    assert out[0] == "-" and {where(int(i)) for i in out[1:]} == {"a"}
    shards.other.start()


def test_a_database_is_the_one_that_the_config_file_means(shards, db):
    listed = json.loads(shards("shard", "ls", "--json", code=UNAVAILABLE).stdout)
    assert ["has no schema" in shard["error"] for shard in listed] == [True] * 3, listed
    refused = shards("queue", "ls", "--shard", "a", code=CONFIG).stderr
    assert "deferred migrate" in refused
    shards("migrate", "--all-shards")
    shards.numbers.update(a=7, c=1)
    shards.write()
    assert (
        "shard 'a' is number 7 in the config file, and its database is number 1"
        in shards("queue", "ls", "--shard", "a", code=CONFIG).stderr
    )
    assert "shard 1: the database is shard 3 already" in shards("migrate", "--shard", "c", code=1).stderr
    # One that has jobs cannot become one: what would their ids mean?
    db.defer("noop")
    shards.numbers.update(a=1)
    shards.conninfo["c"] = db.conninfo
    shards.numbers["c"] = 9
    shards.write()
    assert "shard 9: the database has given out job ids already" in shards("migrate", "--shard", "c", code=1).stderr
    assert db.defer("noop") == 2
    assert "shard 'x' does not exist" in shards("status", "--shard", "x", code=CONFIG).stderr
    assert "shard 'x' does not exist" in shards("--shard", "x", program="check_deferred", code=CONFIG).stderr
    assert (
        "option '--db' contradicts option '--shard'"
        in shards("--shard", "a", "--db", db.conninfo, program="check_deferred", code=USAGE).stderr
    )
    assert (
        "option '--db' contradicts option '--shard'"
        in shards("status", "--db", db.conninfo, "--shard", "a", code=USAGE).stderr
    )
    # Another connection that is named counts, and nobody is asked for shards.
    assert db.run(["deferred", "queue", "ls"]).returncode == OK


def test_what_shows_one_shard_refuses_all_of_them(shards):
    shards("migrate", "--all-shards")
    assert "works on one shard only" in shards("top", "--once", "--all-shards", code=USAGE).stderr


@pytest.mark.parametrize(
    "section, told",
    [
        ('shard "a" { conninfo = "x" }', "shard 'a' has no number from 1 to 899"),
        ('shard "a" { number = 900 }', "shard 'a' has no number from 1 to 899"),
        ('shard "a" { number = 1x }', "shard 'a' has no number from 1 to 899"),
        ('shard "../a" { number = 1 }', 'a name has 1 to 32 letters'),
        ('shard "a" { number = 1 accepting = maybe }', "value 'maybe' of accepting is not 0 or 1"),
        ('shard "a" { number = 1 }\nshard "b" { number = 1 }', "shards 'a' and 'b' have the same number, 1"),
        ('shard "a" { number = 1 }\nshard "a" { number = 2 }', "appears twice"),
        ('shard "a" { numbr = 1 }', "setting 'numbr' of shard 'a' is unknown"),
    ],
)
def test_a_section_that_is_wrong_is_refused(db, section, told):
    db.config(section + "\n")
    done = db.run(["deferred", "shard", "ls"])
    assert done.returncode == CONFIG and told in done.stderr, done


def test_a_password_in_a_section_is_not_for_everybody(db):
    db.config('shard "a" { number = 1 conninfo = "host=x password=secret" }\n')
    os.chmod(db.config_file, 0o644)
    done = db.run(["deferred", "shard", "ls"])
    assert done.returncode == CONFIG and "has a password in it" in done.stderr and "secret" not in done.stderr
