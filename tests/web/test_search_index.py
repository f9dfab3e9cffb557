"""Searches that find a label or a value of the params by an index, and find what the walk found."""

import json
import urllib.parse

import harness
import pg


def ids(web, q, who="opal", **more):
    return [j["id"] for j in web.json("/jobs.json?" + urllib.parse.urlencode({"q": q, **more}), who)["jobs"]]


def scans(db):
    return db.one(
        "select coalesce(sum(idx_scan), 0)::int from pg_stat_user_indexes "
        "where indexrelname ~ '^__deferred_[0-9]+_search_'"
    )


SEARCHES = [
    'label:"order 7"',
    'label:"order 7" key:k7',
    'label:"order 7" params.a.b:3',
    "params.a.b:3",
    "params.a.b:3 tag:t",
    'label:"order 7" tag:t',
    "params.a.b:none",
    'label:none',
    "params.a.b:7 fn:none",
    'params.a.b:"\U0001f4e6"',
    "order 7",
    "params.a.c:1",
]


def test_a_search_uses_it_and_finds_what_the_walk_finds(web, db):
    for i in range(120):
        db.defer(
            "noop",
            json.dumps({"a": {"b": i % 10, "c": 1}}),
            label=f"order {i % 9}",
            **({"key": "k7"} if i == 7 else {}),
            **({"tags": ["t"]} if i % 4 == 3 else {}),
        )
    db.defer("noop", json.dumps({"a": {"b": "\U0001f4e6"}}, ensure_ascii=False))
    db.one("select deferred.defer('noop', %s::json)", '{"a": {"b": "\\u0000"}}')
    walked = [ids(web, q) for q in SEARCHES]
    states = [ids(web, 'label:"order 7"', state=state) for state in ("ready", "done")]
    assert [bool(found) for found in walked] == [True] * 6 + [False] * 3 + [True] * 3 and len(states[0]) == 13, walked
    for term in ("label", "params.a.b"):
        assert db.run(["deferred", "index", "add", term]).returncode == 0
    assert [ids(web, q) for q in SEARCHES] == walked and [
        ids(web, 'label:"order 7"', state=state) for state in ("ready", "done")
    ] == states
    for q in ('label:"order 7"', "params.a.b:3"):
        before = scans(db)
        assert ids(web, q)
        harness.wait_for(lambda: scans(db) > before, what=f"a scan for {q}")
    assert web.ask("/jobs.json?q=params.a.b:3", "vic")[0] == 403 and ids(web, 'label:"order 7"', "vic") == walked[0]
    assert ids(web, "order 7") == walked[10], "a part of a label is walked for"


def test_it_goes_on_page_by_page_over_partitions(web, db):
    assert db.run(["deferred", "index", "add", "label"]).returncode == 0
    jobs = [db.defer("noop", label="many" if i % 2 else "few") for i in range(160)]
    db.sql("select setval('deferred.__deferred_id_seq', 25000000)")
    jobs += [db.defer("noop", label="many") for _ in range(30)]
    assert db.one("select deferred.maintain()") > 0
    jobs += [db.defer("noop", label="many") for _ in range(30)]
    found, after = [], {}
    while True:
        page = web.json("/jobs.json?" + urllib.parse.urlencode({"q": "label:many", **after}))
        found += [j["id"] for j in page["jobs"]]
        if "after" not in page:
            break
        after = {"after": page["after"]}
    wanted = {r[0] for r in db.sql("select id from deferred.__deferred where label = 'many'")}
    assert found == sorted(wanted, reverse=True) and len(found) == 140


def test_a_common_value_is_looked_at_in_bounded_steps_by_the_index_alone(web, db):
    """Not by the primary key, and not all of them put in order: as EXPLAIN has it of the statement that is sent."""
    db.sql(
        """insert into deferred.__deferred (id, queue, fn, params, label) select g, 'default', 'noop', '{}',
            case when g % 2 = 0 then 'many' else 'one ' || g end
              from generate_series(1, 60000) g"""
    )
    assert db.run(["deferred", "index", "add", "label"]).returncode == 0
    text = pg.source("web_jobs")
    kinds = ["text"] * 3 + ["int4", "int8"] + ["text"] * 6 + ["int4", "text", "text", "text[]", "text"]
    values = [
        "null",
        "null",
        "null",
        "50",
        "null",
        "%s",
        "null",
        "null",
        "null",
        "null",
        "null",
        "10000",
        "'false'",
        "null",
        "null",
        "%s",
    ]
    db.sql(
        "set jit = off; set search_path = pg_catalog, pg_temp; set enable_bitmapscan = off; set enable_seqscan = off; "
        "set plan_cache_mode = force_custom_plan"
    )
    db.sql(f"prepare w ({', '.join(kinds)}) as {text}".replace("%", "%%"))
    for label, most in (("many", 10000), ("one 33", 1), ("none", 0)):
        plan = db.one(f"explain (analyze, buffers, format json) execute w({', '.join(values)})", label, label)[0][
            "Plan"
        ]
        nodes, seen = [plan], []
        while nodes:
            node = nodes.pop()
            nodes += node.get("Plans", [])
            if node.get("Alias", "").startswith("y_") and node.get("Actual Loops"):
                seen.append((node["Node Type"], node.get("Index Name"), node["Actual Rows"]))
        assert sorted(seen) == [
            ("Index Scan", "__deferred_0_search_1", most),
            ("Index Scan", "__deferred_default_search_1", 0),
        ], seen
