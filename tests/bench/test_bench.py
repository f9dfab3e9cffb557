"""The bench is worth what its checks are: they have to notice work that was not done, or done twice."""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import types
import xml.etree.ElementTree

import psycopg2
import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import bench  # noqa: E402
import compare_plans  # noqa: E402
import pg  # noqa: E402
import plain  # noqa: E402
import report  # noqa: E402
import results  # noqa: E402
import stage  # noqa: E402
import svg  # noqa: E402
import turns  # noqa: E402
import windows  # noqa: E402
from scenarios import latency, plans, wal  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def bench_db(db, tmp_path):
    """A stage whose server is the one of the tests."""
    s = stage.Stage(str(tmp_path))
    s.cluster = db.cluster
    d = stage.Database(s, db.name, db.conninfo)
    yield d
    d.db.close()


@pytest.fixture
def done(bench_db):
    """Ten jobs that were run, five that were not."""
    bench_db.fill(15)
    bench_db.work(2, cnt=5)
    bench_db.expect(10, 5)
    return bench_db


@pytest.mark.parametrize(
    "harm",
    [
        "delete from deferred.__deferred_log where job_id = (select min(job_id) from deferred.__deferred_log)",
        "insert into deferred.__deferred_log select * from deferred.__deferred_log limit 1",
        "delete from deferred.__deferred_hot where id = (select min(id) from deferred.__deferred_hot)",
        "update deferred.__deferred_log set outcome = 'failed' where job_id = (select min(job_id) "
        "from deferred.__deferred_log)",
        "update deferred.__deferred_log set job_id = (select min(id) from deferred.__deferred_hot)"
        " where job_id = (select min(job_id) from deferred.__deferred_log)",
    ],
)
def test_a_job_lost_doubled_or_failed_is_noticed(done, harm):
    done.sql(harm)
    with pytest.raises(stage.Failed, match="10 jobs were to be done and 5 to be left"):
        done.expect(10, 5)


def test_a_run_that_fails_or_says_something_is_noticed(bench_db):
    with pytest.raises(stage.Failed, match="exit status 64"):
        bench_db.work(1, cnt="many")
    bench_db.sql("select deferred.defer('fail', '{\"error\": \"no luck\"}')")
    with pytest.raises(stage.Failed, match="no luck"):
        bench_db.work(1)


def test_a_pgbench_that_did_nothing_is_noticed(bench_db, monkeypatch):
    """It says so when it had no time for its first transaction."""
    said = "number of transactions actually processed: 0\nnumber of failed transactions: 0 (NaN%)\n"
    monkeypatch.setattr(stage.pg, "call", lambda args: said)
    with pytest.raises(stage.Failed, match="actually processed: 0"):
        bench_db.pgbench("select 1;", 1)


@pytest.mark.parametrize("way", plain.WAYS)
@pytest.mark.parametrize("clients", [1, 4])
def test_plain_sql_works_each_row_once(bench_db, way, clients):
    p = plain.Plain(bench_db)
    p.fill(way, 1000)
    rate, cpu_us = p.work(way, clients, 50, 400)
    assert rate > 0 and cpu_us >= 0
    jobs = bench_db.one(
        "select count(distinct job_id) from plain.log where worker is not null and outcome = 'ok' and attempt = 1"
    )
    assert (
        jobs,
        bench_db.one("select count(*) from plain.hot where receipt is not null"),
        bench_db.one("select count(*) from plain.lease"),
    ) == (400, 0, 0)
    p.top_up(way, 1000)
    p.work(way, clients, 50, seconds=1)
    p.top_up(way, 1000)
    assert (p.ready(way), bench_db.one("select count(*) from plain.hot where receipt is not null")) == (1000, 0)
    bench_db.sql(
        """create function twice() returns trigger language plpgsql as $$ begin
        if pg_trigger_depth() = 1 then insert into plain.log select new.*; end if; return new; end $$"""
    )
    bench_db.sql("create trigger twice before insert on plain.log for each row execute function twice()")
    with pytest.raises(stage.Failed, match="plain SQL"):
        p.work(way, clients, 50, 400)


def claimed(db, wanted):
    lease = db.one("select lease from plain.claim(%s, 1, 7)", wanted)
    return db.one("select ids from plain.lease where id = %s", lease)


def test_the_second_yardstick_misses_no_job_that_is_committed_late(bench_db):
    """Claims continue while a writer has not committed, has rolled back, or has a savepoint."""
    plain.Plain(bench_db)
    insert = (
        f"insert into plain.ready (id, {stage.HOT_COLUMNS}) select n, {stage.HOT_VALUES} from generate_series(%s, %s) n"
    )
    late, never = (psycopg2.connect(bench_db.conninfo) for _ in range(2))
    with late.cursor() as one, never.cursor() as other:
        one.execute(insert, (1, 100))
        one.execute("savepoint s")
        one.execute(insert, (101, 150))
        other.execute(insert, (1001, 1100))
        bench_db.sql(insert, 201, 400)
        first = claimed(bench_db, 150)
        never.rollback()
        late.commit()
        second = claimed(bench_db, 100)
        third = claimed(bench_db, 1000)
    assert first == list(range(201, 351))
    assert sorted(first + second + third) == [*range(1, 151), *range(201, 401)]
    assert bench_db.one("select lease is null and tids = '{}' from plain.claim(100, 1, 7)")
    late.close()
    never.close()


def test_the_server_is_charged_for_what_it_does(bench_db):
    before = bench_db.stage.cpu_seconds()
    bench_db.sql("select count(*) from generate_series(1, 1000000)")
    used = bench_db.stage.cpu_seconds() - before
    other = stage.Database(bench_db.stage, bench_db.name, bench_db.conninfo)
    other.sql("select count(*) from generate_series(1, 1000000)")
    other.db.close()
    while bench_db.one("select count(*) from pg_stat_activity where datname = current_database()") > 1:
        time.sleep(0.01)
    time.sleep(0.1)  # until it is waited for
    assert used > 0.02 and bench_db.stage.cpu_seconds() - before > 1.3 * used  # a process that is gone counts too


def test_jobs_are_filled_in_without_end(bench_db):
    """Partitions are made when they are needed, not for each call."""
    bench_db.sql("select setval('deferred.__deferred_id_seq', 9999000)")
    bench_db.fill(2000)
    bench_db.sql("select setval('deferred.__deferred_id_seq', 24999000)")
    bench_db.fill(2000)
    assert bench_db.ready() == bench_db.one("select count(*) from deferred.__deferred") == 4000
    assert bench_db.sql(
        "select distinct c.relname from deferred.__deferred d join pg_class c on c.oid = d.tableoid order by 1"
    ) == [("__deferred_0",), ("__deferred_10000000",), ("__deferred_20000000",)]


def test_the_median_counts_and_rounds_begin_with_different_ones():
    order, values = [], iter([5.0, 50.0, 70.0, 1.0, 3.0, 90.0])
    ways = {n: (lambda n=n: (order.append(n), next(values))[1]) for n in ("a", "b")}
    kept = []
    assert turns.in_turns(ways, 3, lambda text: None, kept) == {"a": 3.0, "b": 70.0}
    assert kept == [{"a": [5.0, 1.0, 3.0], "b": [50.0, 70.0, 90.0]}]
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert [turns.quantile(list(range(100)), q) for q in (0, 0.5, 0.99, 1)] == [0, 50, 99, 99]


def test_windows_are_paired_side_by_side_and_what_drifts_cancels_out():
    assert [windows.on(i) for i in range(8)] == [False, True, True, False, False, False, False, True]
    seen = [windows.Window(windows.on(i), i, i + 0.9) for i in range(12)]
    assert windows.pairs(seen, 0, 12) == ([(0, 1), (3, 2), (6, 7), (9, 8)], [(4, 5), (10, 11)])
    # The first of them began before the run, the last ended after it; one without another is no pair.
    assert windows.pairs(seen, 0.5, 11.5) == ([(3, 2), (6, 7), (9, 8)], [(4, 5)])
    assert windows.pairs(seen[:3], 0, 8) == ([(0, 1)], []) and windows.pairs(seen[:1], 0, 8) == windows.pairs(
        [], 0, 8
    ) == ([], [])
    slower = [1 - i / 100 for i in range(12)]
    assert windows.quartiles([slower[on] / slower[off] for off, on in windows.pairs(seen, 0, 12)[0]])[
        1
    ] == pytest.approx(1, abs=0.001)


def test_quartiles_of_few_pairs_are_told_too():
    assert windows.quartiles([0.9, 1.0, 0.94, 0.96, 0.98]) == pytest.approx([0.94, 0.96, 0.98])
    assert windows.quartiles([0.9]) == [0.9, 0.9, 0.9]


def test_the_report_says_whether_an_aim_is_reached(tmp_path, capsys):
    about = report.about(True, "15.1 (x)", {"fsync": "on"}, str(tmp_path), 3)
    r = report.Report("name", "Title", str(tmp_path), about)
    r.row("base", 100)
    for value, aims, reached in (
        (90, {"least": 0.9}, True),
        (89, {"least": 0.9}, False),
        (130, {"most": 1.3}, True),
        (131, {"most": 1.3}, False),
        (9, {"value_most": 10}, True),
        (11, {"value_most": 10, "most": 1.3}, False),
        (3, {"value_least": 4}, False),
    ):
        r.row("row", value, "ms", 100, **aims)
        assert r.rows[-1]["reached"] is reached, aims
    r.chart(svg.lines, "", "t", "x", "y", [("s", [(1, 2)])])
    r.finish(1)
    said = capsys.readouterr().out
    assert said.count("NOT REACHED") == 4 and ">= 0.9: reached" in said
    with open(tmp_path / "name.json") as f:
        saved = json.load(f)
    assert saved["figures"][1] == {
        "name": "row",
        "value": 90,
        "unit": "ms",
        "ratio": 0.9,
        "aim": ">= 0.9",
        "reached": True,
    }
    assert saved["machine"]["cores"] == os.cpu_count() and saved["settings"] == {"fsync": "on"} and saved["date"]
    assert saved["charts"] == ["name.svg"]


def part_of(name, value, date, tmp_path):
    about = {
        **report.about(False, "15.1 (x)", {"fsync": "on"}, str(tmp_path), 3),
        "date": date,
        "asked": {"scale": 0.5},
    }
    r = report.Report(name, "Title", str(tmp_path), about)
    r.row("base", 100, "jobs/s")
    r.row("ours", value, "jobs/s", 100, least=1.2)
    return results.section(name, "Title", about, r.rows)


def test_a_scenario_that_was_not_run_keeps_its_table_and_date(tmp_path):
    path, order = str(tmp_path / "RESULTS.md"), ("one", "two", "three")
    results.record(path, order, "two", part_of("two", 90, "2026-01-02T00", tmp_path))
    results.record(path, order, "one", part_of("one", 130, "2026-01-03T00", tmp_path))
    before = results.sections(results.read(path))
    results.record(path, order, "two", part_of("two", 150, "2026-01-04T00", tmp_path))
    after = results.sections(results.read(path))
    assert list(after) == ["one", "two"] and after["one"] == before["one"] and "2026-01-03" in after["one"]
    results.write(path, results.read(path) + "\n## byhand: Not of a scenario\n\nFigures.\n")
    results.record(path, order, "three", part_of("three", 90, "2026-01-05T00", tmp_path))
    assert list(results.sections(results.read(path)).items()) == [
        *after.items(),
        ("three", results.sections(results.read(path))["three"]),
        ("byhand", "## byhand: Not of a scenario\n\nFigures.\n"),
    ]
    assert "2026-01-04" in after["two"] and "| 150 jobs/s | 1.50 | >= 1.2 | reached |" in after["two"]
    assert "| 90.00 jobs/s | 0.90 | >= 1.2 | missed |" in before["two"]
    for word in ("PostgreSQL 15.1 ", "fsync = on", f"{os.cpu_count()} cores", "--scale 0.5", "3 round"):
        assert word in after["two"], word


def test_only_a_run_with_full_sizes_writes_its_results(monkeypatch, tmp_path):
    """Others write to a file that is named for them."""
    full, scenario = str(tmp_path / "RESULTS.md"), types.SimpleNamespace(
        TITLE="Title", run=lambda b: b.report.row("row", 1)
    )
    monkeypatch.setattr(bench.results, "RESULTS", full)
    monkeypatch.setattr(bench.importlib, "import_module", lambda name: scenario)

    def written(**more):
        args = argparse.Namespace(
            **{
                "quick": False,
                "rounds": 1,
                "processes": 1,
                "batch": 1,
                "scale": 1.0,
                "jobs": None,
                "results": None,
                **more,
            }
        )
        b = bench.Bench(types.SimpleNamespace(check_log=lambda: None), args)
        assert bench.run(b, "execute", str(tmp_path), report.about(args.quick, "15.1 (x)", {}, str(tmp_path), 1))
        return [name for name in os.listdir(tmp_path) if name.endswith(".md")]

    assert written(quick=True) == written(scale=0.5) == written(jobs=1000) == []
    assert written(quick=True, results=str(tmp_path / "other.md")) == ["other.md"]
    assert sorted(written()) == ["RESULTS.md", "other.md"]


def test_charts_are_svg_and_their_points_stand_where_the_axis_says(tmp_path):
    path = tmp_path / "c.svg"
    svg.lines(
        path,
        "a < b & c",
        "x",
        "y",
        [("one", [(1, 0), (10, 50), (100, 100)]), ("two", [(1, 10)], "dashed", 0)],
        log_x=True,
    )
    root = xml.etree.ElementTree.parse(path).getroot()
    assert "a < b & c" in [t.text for t in root.iter(SVG + "text")]
    first, middle, last = ((float(c.get("cx")), float(c.get("cy"))) for c in list(root.iter(SVG + "circle"))[:3])
    assert middle[0] - first[0] == pytest.approx(last[0] - middle[0], abs=0.2)  # a factor of ten is a factor of ten
    assert first[1] - middle[1] == pytest.approx(middle[1] - last[1], abs=0.2)
    zero = next(float(t.get("y")) for t in root.iter(SVG + "text") if t.text == "0")
    assert first[1] == pytest.approx(zero - 4, abs=0.2)
    svg.bars(path, "t", "x", "y", ["a", "b"], [("one", [1, 2]), ("two", [0, 4])])
    heights = [float(r.get("height")) for r in xml.etree.ElementTree.parse(path).getroot().iter(SVG + "rect")][1:]
    assert (
        heights[2] == pytest.approx(2 * heights[0], abs=0.2)
        and heights[1] == 0
        and heights[3] == pytest.approx(4 * heights[0], abs=0.3)
    )


@pytest.mark.parametrize(
    "low, high, expected",
    [(0, 100, [0, 20, 40, 60, 80, 100]), (0, 0.35, [0, 0.1, 0.2, 0.3, 0.4]), (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1])],
)
def test_ticks_are_round_and_enclose(low, high, expected):
    assert svg.ticks(low, high) == expected


def test_the_histogram_counts_every_wait_once():
    bounds, counts = latency.histogram({"a": [3, 100, 215, 216, 1000, 4641], "b": [999]})
    assert bounds == [100, 215, 464, 1000, 2154, 4642]
    assert counts == {"a": [2, 2, 0, 1, 1, 0], "b": [0, 0, 1, 0, 0, 0]}


def test_each_statement_of_the_hot_path_settles_its_batch_and_one_that_does_not_is_noticed(bench_db, monkeypatch):
    place = plans.Place(bench_db, plans.unclaimed, 10)
    try:
        plans.measure_all([place], 1)
        assert {name: len(us) for name, us in place.costs_us.items()} == {name: 2 for name in plans.STATEMENTS}
        assert all(place.cost(name) > 0 for name in plans.STATEMENTS) and bench_db.ready() == 10
        for name, (prepare, *rest) in list(plans.STATEMENTS.items())[1:]:

            def wrong(db, receipt, prepare=prepare):
                held = prepare(db, receipt)
                held[0] = 0
                return held

            monkeypatch.setattr(plans, "STATEMENTS", {name: (wrong, *rest)})
            with pytest.raises(stage.Failed, match=f"{name}: 499 of 500"):
                plans.measure_all([place], 1)
            bench_db.sql("delete from deferred.__deferred_lease")
    finally:
        place.session.close()


def test_a_job_that_somebody_has_locked_was_not_given_back():
    assert plans.given_back([1, 2], [(1, True), (2, False)]) == [1]


def test_bursts_of_the_machine_do_not_pass_for_a_plan():
    place = object.__new__(plans.Place)
    place.costs_us = {"slow half the time": [90, 10, 17, 10, 17, 17, 17, 10, 10, 17, 16], "slow": [90, *[17, 16] * 5]}
    assert (place.cost("slow half the time"), place.cost("slow")) == (10, 16)


def test_every_scenario_is_listed_and_described():
    here = os.path.dirname(os.path.abspath(__file__))
    files = {f[:-3] for f in os.listdir(os.path.join(here, "scenarios")) if f.endswith(".py")} - {"__init__"}
    assert files == set(bench.scenarios.NAMES)
    with open(os.path.join(here, "README.md")) as f:
        text = f.read()
    assert [n for n in files if f"| {n} |" not in text] == []


def test_wal_is_told_apart_by_kind(bench_db):
    begin = bench_db.one("select pg_current_wal_insert_lsn()::text")
    bench_db.fill(100)
    end = bench_db.one("select pg_current_wal_insert_lsn()::text")
    bench_db.sql("select pg_switch_wal()")
    kinds = wal.records(bench_db.stage.cluster, begin, end)
    # A hundred jobs are two hundred rows; other tests write at the same time.
    assert kinds["Heap/INSERT"][0] >= 200
    assert kinds["Heap/INSERT"][1] >= 200 * 50


@pytest.mark.parametrize("script", ["bench.py", "rules.py", "runners.py", "wake.py", "peers/peers.py"])
def test_every_script_can_be_started(script):
    done = subprocess.run(
        [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), script), "--help"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "usage" in done.stdout, done.stderr


def test_each_optimisation_has_a_figure_and_a_test():
    with open(os.path.join(pg.TOP, "tests", "bench", "README.md")) as f:
        part = f.read().split("\n## Optimisations\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 20
    for device, gain, _, test in rows:
        assert re.search(r"\d", gain), device
        path, name = test.strip("`").split("::")
        with open(os.path.join(pg.TOP, path)) as f:
            assert re.search(rf"\b{name}\(", f.read()), test


def test_a_plan_of_another_kind_is_noticed_and_another_text_is_not():
    older = compare_plans.kinds(["Index Scan using i on __deferred_hot h", "Index Cond: (id = ANY (ARRAY[$1]))"])
    newer = compare_plans.kinds(["Index Scan using i on __deferred_hot h", "Index Cond: (id = ANY ($1))"])
    worse = compare_plans.kinds(["Seq Scan on __deferred_hot h"])
    plans_of = {"15.1": {"a": older, "b": older}, "16.1": {"a": newer, "b": newer}, "17.1": {"a": newer, "b": worse}}
    [line] = compare_plans.differences(plans_of.items())
    assert line.startswith("b: 17.1 has ['Seq Scan on __deferred_hot h'], 15.1 has [")
