"""What monitoring is given: metrics, alerts on them, a dashboard of them. What promtool and
Prometheus themselves say is asked where they are installed: `make check-metrics` installs them."""

import contextlib
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
import urllib.parse
import urllib.request

import pytest

import pg
from front import Front
from harness import program, wait_for
from test_figures import checked, deferred, metrics

CRON = os.path.join(pg.TOP, "cron")


def expressions():
    """Of the dashboard, as they are sent for a scrape a second."""
    with open(os.path.join(CRON, "deferred.grafana.json")) as f:
        board = json.load(f)
    return [
        target["expr"].replace("$__rate_interval", "4s")
        for panel in board["panels"]
        for target in panel.get("targets", [])
    ]


@pytest.mark.by_hand
def test_labels_are_bounded_and_escaped(db):
    db.sql(
        """insert into deferred.__deferred_series (queue, fn, plugin)
              select 'q' || n, '*', '*' from generate_series(1, 150) n union all select '*', 'f' || n, '*'
              from generate_series(1, 250) n"""
    )
    db.sql(
        """insert into deferred.__deferred_series (queue, fn, plugin)
              select 'q' || n, 'f' || m, 'p' from generate_series(1, 150) n, generate_series(1, 10) m order by n, m"""
    )
    db.sql("""insert into deferred.__deferred_series (queue, fn, plugin) values ('q1', E'a"b\\\\c\\nd', 'p')""")
    db.sql(
        """insert into deferred.__deferred_sum select 0, '-infinity', id, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
            1, 1, 1, 1, '{{1,1}}', '{{1,1}}' from deferred.__deferred_series"""
    )
    for queue in ("other", "p1"):
        db.defer("noop", queue=queue)
    text = deferred(db, "metrics").stdout
    told = metrics(text)
    assert checked(text) == ""
    assert (
        told['deferred_jobs{queue="other",state="ready"}'] == 2
        and text.count('deferred_jobs{queue="other",state="ready"}') == 1
    )
    assert len(told) < 12000
    assert (
        told['deferred_jobs_deferred_total{queue="q100"}'] == 1
        and told['deferred_jobs_deferred_total{queue="other"}'] == 50
    )
    assert 'deferred_jobs_deferred_total{queue="q101"}' not in told
    assert told['deferred_run_seconds_count{fn="other"}'] == 50
    assert sum(v for k, v in told.items() if k.startswith("deferred_attempts_total") and "\"ok\"" in k) == 1501
    assert told['deferred_attempts_total{queue="other",fn="other",outcome="ok"}'] == 1001


@pytest.mark.slow
@pytest.mark.by_hand
def test_alerts_and_dashboard_use_metrics_that_are_there(db):
    """Each of them by name; a command that an alert names is one of ours; and the alerts fire when they should."""
    db.sql(
        "insert into deferred.__deferred_series (queue, fn, plugin) "
        "values ('q', '*', '*'), ('*', 'f', '*'), ('q', 'f', 'p')"
    )
    db.sql(
        "insert into deferred.__deferred_sum select 0, '-infinity', id, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, "
        "1, '{}', '{}' from deferred.__deferred_series"
    )
    given = set(re.findall(r"(?m)^(\w+)", re.sub(r"(?m)^#.*", "", deferred(db, "metrics").stdout)))
    given |= {
        "deferred_limit_used_ratio",
        "deferred_function_slowdown_least_ratio",
        "deferred_function_more_crashes_least_ratio",
    }
    with open(os.path.join(CRON, "deferred.rules.yml")) as f:
        rules = f.read()
    used = set(re.findall(r"\bdeferred_\w+", rules + " ".join(expressions())))
    assert len(used) > 12 and used <= given, used - given
    runbooks = re.findall(r'runbook: "(.*)"', rules)
    assert len(runbooks) == rules.count("- alert:") == 8
    commands = set(re.findall(r"(?m)^  (\w+) ", deferred(db, "help").stdout))
    assert {line.split()[1] for book in runbooks for line in book.split("; ")} <= commands
    with open(os.path.join(pg.TOP, "docs", "man", "deferred-metrics.1")) as f:
        page = f.read()
    assert all(name.removesuffix("_bucket") in page for name in used)
    if shutil.which("promtool"):
        done = subprocess.run(
            ["promtool", "test", "rules", os.path.join(pg.TOP, "tests", "bin", "rules_test.yml")],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def prometheus(db, scrapes):
    """A server that scrapes these, {job: (address, path)}, each second; and whom to ask for what it knows."""
    config = os.path.join(db.dir, "prometheus.yml")
    with open(config, "w") as f:
        json.dump(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [os.path.join(CRON, "deferred.rules.yml")],
                "scrape_configs": [
                    {"job_name": name, "metrics_path": path, "static_configs": [{"targets": [address]}]}
                    for name, (address, path) in scrapes.items()
                ],
            },
            f,
        )
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as free:
        port = free.server_port
    server = subprocess.Popen(
        [
            "prometheus",
            "--config.file=" + config,
            "--storage.tsdb.path=" + os.path.join(db.dir, "prometheus"),
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def ask(query):
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query}), timeout=5
            ) as answer:
                return json.load(answer)["data"]["result"]
        except OSError:
            return None

    try:
        yield ask
    finally:
        server.terminate()
        server.wait()


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs Prometheus: make check-metrics")
@pytest.mark.by_hand
def test_prometheus_reads_the_metrics_and_answers_the_dashboard(db):
    """A server that asks every second, over HTTP, for what `deferred metrics` prints, once as text
    and once as OpenMetrics."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            opened = self.path == "/open"
            text = deferred(db, "metrics", *["--openmetrics"] * opened).stdout.encode()
            self.send_response(200)
            self.send_header(
                "Content-Type",
                "application/openmetrics-text; version=1.0.0; charset=utf-8" if opened else "text/plain; version=0.0.4",
            )
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args):
            pass

    for fn in ("echo", "fail"):
        db.defer(fn, queue="mail", max_attempts=1)
    db.run([program("check_deferred"), "--cnt", "0"])
    db.sql("update deferred.__deferred_log set finished_at = finished_at - interval '10 minutes'")
    db.sql("update deferred.__deferred_folded set folded_to = now() - interval '20 minutes', slice = '1 hour'")
    db.defer("echo", queue="mail")
    front = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=front.serve_forever, daemon=True).start()
    try:
        with prometheus(db, {name: (f"127.0.0.1:{front.server_port}", "/" + name) for name in ("text", "open")}) as ask:
            wait_for(
                lambda: len(ask("count_over_time(up[1m]) >= 4 and up == 1") or []) == 2, what="four scrapes of each"
            )
            assert len(ask('deferred_attempts_total{queue="mail",fn="fail",outcome="failed"} == 1')) == 2
            assert len(ask('deferred_wait_seconds_bucket{queue="mail",le="+Inf"} == 2')) == 2
            empty = {query for query in expressions() if ask(query) == []}
            assert {query for query in empty if "limit_used" not in query} == set()
            assert None not in [ask(query) for query in expressions()]
            assert ask("absent(ALERTS)") is not None
    finally:
        front.shutdown()
        front.server_close()


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs Prometheus: make check-metrics")
@pytest.mark.by_hand
def test_prometheus_scrapes_the_programs_where_they_listen_for_it(db):
    """Neither has a login for it, nor a page at that address."""

    def port(program):
        said = wait_for(
            lambda: re.search(r"listening on 127\.0\.0\.1:(\d+), HTTP, for ", program.output()),
            what="an address for metrics",
        )
        return f"127.0.0.1:{said[1]}"

    web = db.spawn(["deferred_web", "--listen", "", "--listen-metrics", "0"])
    served = Front(db, "--listen-metrics", "0")
    client = served.client()
    client.create("mail")
    client.put("mail")
    client.close()
    db.defer("noop", queue="images")
    with prometheus(db, {"web": (port(web), "/metrics"), "http": (port(served.program), "/metrics")}) as ask:
        wait_for(lambda: len(ask("count_over_time(up[1m]) >= 3 and up == 1") or []) == 2, what="three scrapes of each")
        assert len(ask('deferred_http_requests_total{job="http",operation="PutMessage",status="2xx"} == 1')) == 1
        assert len(ask('deferred_http_request_seconds_count{operation="PutMessage"} == 1')) == 1
        assert (
            len(ask('histogram_quantile(0.99, rate(deferred_http_request_seconds_bucket{operation="PutMessage"}[1m]))'))
            == 1
        )
        assert (
            len(ask('deferred_build_info{job="web"} == 1')) == 1 and len(ask('deferred_workers{job="web"} == 0')) == 1
        )
    assert served.stop() == 0
