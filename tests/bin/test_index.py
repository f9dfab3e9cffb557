"""Indexes for searches: built beside all that runs, gone on with, used, kept up, and given back."""

import json

import pytest

import harness
from test_deferred import login

OK, NOT_DONE, USAGE, DATA, NOPERM = 0, 1, 64, 65, 77
HOSTILE = "'); drop table deferred.__deferred; --"


def built(db):
    return db.sql("select x.term, x.part, x.valid from deferred.__search_indexes() x where not x.net order by 1, 2")


def test_it_is_built_told_used_and_dropped(db, ledger):
    for i in range(300):
        db.defer("noop", json.dumps({"n": {"x": [i]}}), label=f"order {i % 100}")
    db.defer("noop")
    assert (
        json.loads(db.run(["deferred", "index", "ls", "--json"]).stdout) == []
        and db.run(["deferred", "index", "ls"]).stdout == ""
    )
    before = db.run(["deferred", "ls", "--label", "order 7"]).stdout
    said = db.run(["deferred", "index", "add", "label"])
    assert (
        said.returncode == OK
        and "__deferred_0: builds it" in said.stdout
        and "bytes, about 300 jobs in it" in said.stdout
    ), said
    assert db.run(["deferred", "index", "add", "label"]).stdout.startswith(
        "searches use it from now on"
    ), "nothing was left to do"
    assert json.loads(db.run(["deferred", "index", "add", "params.n.x.0", "--json"]).stdout)["jobs"] == 300
    told = json.loads(db.run(["deferred", "index", "ls", "--json"]).stdout)
    assert [(t["term"], t["state"], t["partitions_built"], t["partitions"], t["jobs"]) for t in told] == [
        ("label", "built", 1, 1, 300),
        ("params.n.x.0", "built", 1, 1, 300),
    ]
    scans = (
        "select idx_scan from pg_stat_user_indexes where indexrelname ~ '^__deferred_0_search_' "
        "order by indexrelname limit 1"
    )
    first = db.one(scans)
    after = db.run(["deferred", "ls", "--label", "order 7"])
    assert [line.split()[0] for line in after.stdout.splitlines()] == [
        line.split()[0] for line in before.splitlines()
    ] and len(before.splitlines()) == 4
    harness.wait_for(lambda: db.one(scans) > first, what="a scan of the index")
    assert db.run(["deferred", "ls", "--label", "none"]).stdout == ""
    db.plugins()
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == OK
    assert len(json.loads(db.run(["deferred", "ls", "--label", "order 7", "--state", "done", "--json"]).stdout)) == 3
    assert "ok      indexes" in db.run(["deferred", "doctor"]).stdout
    assert db.run(["deferred", "index", "rm", "label"]).stdout.endswith("it is gone\n")
    assert db.run(["deferred", "index", "rm", "label"]).returncode == NOT_DONE
    assert [t for t, _, _ in built(db)] == ["params.n.x.0"] and db.one(
        "select count(*) from pg_class where relname ~ '^__deferred_[0-9]+_search_'"
    ) == 1
    ledger(db)


def test_what_is_no_term_is_refused_and_quoted(db):
    for term in (
        "",
        "labels",
        "params",
        "params.",
        "params.a..b",
        "params." + "a" * 200,
        "params." + ".".join("abcdefghijklmnopq"),
        "params.a\nb",
        HOSTILE,
    ):
        said = db.run(["deferred", "index", "add", term])
        assert said.returncode == DATA and "cannot have an index" in said.stderr and "hint: " in said.stderr, (
            term,
            said,
        )
    assert (
        db.run(["deferred", "index", "add"]).returncode
        == db.run(["deferred", "index", "add", "label", "label"]).returncode
        == db.run(["deferred", "index"]).returncode
        == USAGE
    )
    for i in range(4):
        assert db.run(["deferred", "index", "add", f"params.a{i}"]).returncode == OK
    said = db.run(["deferred", "index", "add", "label"])
    assert (
        said.returncode != OK and "4 search indexes exist already" in said.stderr and "deferred index rm" in said.stderr
    ), said


def test_keys_and_values_are_data(db):
    """Whatever they hold, and however long they are: who defers is never refused for an index."""
    key = HOSTILE + '"%I%s\\'
    assert (
        db.run(["deferred", "index", "add", "params." + key]).returncode
        == db.run(["deferred", "index", "add", "label"]).returncode
        == OK
    )
    values = ["x" * 100_000, "\U0001f4e6", HOSTILE, ""]
    jobs = [db.defer("noop", json.dumps({key: value}), label=value[:1000] or None) for value in values]
    jobs += [
        db.one("select deferred.defer('noop', %s::json)", text)
        for text in ('{"a": "\\u0000"}', '{"a": "\\ud800"}', "[]", "{}", '{"%s": null}' % "b")
    ]
    assert len(jobs) == 9 and db.one("select count(*) from deferred.__deferred") == 9
    assert (
        db.run(["deferred", "index", "rm", "params." + key]).returncode == OK
        and db.run(["deferred", "index", "add", "params." + key]).returncode == OK
    ), "built over them, too"
    assert [len(json.loads(db.run(["deferred", "ls", "--json", "--label", value]).stdout)) for value in values[:3]] == [
        0,
        1,
        1,
    ]
    assert len(json.loads(db.run(["deferred", "ls", "--json", "--label", "x" * 1000]).stdout)) == 1


def test_an_interrupted_build_is_gone_on_with_and_keeps_nobody_waiting(db, ledger):
    db.plugins()
    job = db.defer("noop", label="a")
    with db.connect() as old:  # the build waits for its snapshot, with the index there and not valid
        with old.cursor() as cursor:
            cursor.execute(
                "set transaction isolation level repeatable read; select count(*) "
                "from deferred.__deferred; insert into deferred.__deferred_grant values ('nobody')"
            )
        building = db.spawn(["deferred", "index", "add", "label"])
        harness.wait_for(
            lambda: [v for _, _, v in built(db)] == [False]
            and db.one("select count(*) from pg_class where relname = '__deferred_0_search_1'") == 1
        )
        db.sql("set lock_timeout = '1s'")
        assert db.run(["check_deferred", "--cnt", "0"]).returncode == OK and db.log(job) == [(1, "ok")]
        later = db.defer("noop", label="a")
        assert "indexes" not in db.run(["deferred", "doctor"]).stdout.replace(
            "ok      indexes", ""
        ), "somebody is at it"
        second = db.spawn(["deferred", "index", "add", "label"])
        harness.wait_for(lambda: "waits for who is at work on it" in second.output())
        assert not db.one("select deferred.__search_usable('label')")
        assert (
            db.one(
                "select count(pg_cancel_backend(pid)) from pg_stat_activity where query like 'create index%%' "
                "and datname = current_database()"
            )
            == 1
        )
        assert building.wait() != OK and "it continues where this one stopped" in building.output()
        second.kill()
        old.rollback()
    harness.wait_for(
        lambda: db.one(
            "select count(*) from pg_stat_activity where query ~ '^(create|drop) index' and state = 'active' "
            "and datname = current_database()"
        )
        == 0
    )
    assert [t["state"] for t in json.loads(db.run(["deferred", "index", "ls", "--json"]).stdout)] == ["partial"]
    found = db.run(["deferred", "doctor"]).stdout
    if [v for _, _, v in built(db)] == [False] and db.one(
        "select count(*) from pg_class where relname = '__deferred_0_search_1'"
    ):
        assert "__deferred_0_search_1, for searches, was not completed" in found and "deferred index add label" in found
    assert len(json.loads(db.run(["deferred", "ls", "--label", "a", "--json"]).stdout)) == 1, "walks as before"
    said = db.run(["deferred", "index", "add", "label"])
    assert said.returncode == OK and "builds it" in said.stdout and built(db) == [("label", "__deferred_0", True)], said
    assert [j["id"] for j in json.loads(db.run(["deferred", "ls", "--label", "a", "--json"]).stdout)] == [later]
    ledger(db)


def test_new_partitions_have_it_and_purged_ones_are_no_trouble(db):
    assert db.run(["deferred", "index", "add", "label"]).returncode == OK
    db.sql("select setval('deferred.__deferred_id_seq', 25000000)")
    job = db.defer("noop", label="in the net")
    assert db.one("select deferred.maintain()") > 0
    assert (
        ("label", "__deferred_20000000", True) in built(db)
        and all(valid for _, _, valid in built(db))
        and db.one("select deferred.__search_usable('label')")
    )
    assert [j["id"] for j in json.loads(db.run(["deferred", "ls", "--label", "in the net", "--json"]).stdout)] == [job]
    db.sql("drop table deferred.__deferred_0")
    assert (
        db.one("select deferred.__search_usable('label')")
        and "ok      indexes" in db.run(["deferred", "doctor"]).stdout
    )
    assert db.run(["deferred", "index", "rm", "label"]).returncode == OK
    db.sql("select setval('deferred.__deferred_id_seq', 65000000)")
    assert (
        db.one("select deferred.maintain()") > 0
        and db.one("select count(*) from pg_class where relname ~ '^__deferred_[0-9]+_search_'") == 0
    )


@pytest.mark.parametrize("role", ["deferred_viewer", "deferred_operator", "deferred_worker"])
def test_only_the_owner_may(db, role):
    assert db.run(["deferred", "index", "add", "label"]).returncode == OK
    name, env = login(db, role)
    try:
        for words in (["add", "label"], ["add", "params.a"], ["rm", "label"]):
            said = db.run(["deferred", "index", *words], env=env)
            assert said.returncode == NOPERM and "deferred_owner" in said.stderr, said
        assert ("label" in db.run(["deferred", "index", "ls"], env=env).stdout) and db.one(
            "select count(*) from deferred.__deferred_search where wanted"
        ) == 1
    finally:
        db.sql(f"drop role {name}")


def test_a_member_of_the_owner_may(db):
    """Not as a superuser, whom nothing is refused."""
    name, env = login(db, "deferred_owner")
    try:
        db.defer("noop", label="a")
        for words in (["add", "label"], ["add", "params.a"], ["rm", "params.a"]):
            said = db.run(["deferred", "index", *words], env=env)
            assert said.returncode == OK, said
        assert [
            j["label"] for j in json.loads(db.run(["deferred", "ls", "--label", "a", "--json"], env=env).stdout)
        ] == ["a"]
        assert db.run(["deferred", "index", "rm", "label"], env=env).returncode == OK
    finally:
        db.sql(f"drop role {name}")


def test_what_doctor_says_can_be_pasted(db):
    assert db.run(["deferred", "index", "add", "params.it's; rm -r x"]).returncode == OK
    db.sql("update pg_index set indisvalid = false where indexrelid = 'deferred.__deferred_0_search_1'::regclass")
    assert r"deferred index add 'params.it'\''s; rm -r x'" in db.run(["deferred", "doctor"]).stdout
    assert (
        db.run(["deferred", "index", "add", "params.it's; rm -r x"]).stdout.count("__deferred_0: ") == 2
        and built(db)[0][2]
    )
