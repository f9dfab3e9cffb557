#!/usr/bin/python3
"""`make demo-web`: a week of believable history, a service that goes on with it, and the operators' page on top.

    web.py [--seed N] [--port 10003] [--jobs 9000] [-- COMMAND...]

Mail with an outage and a plugin that was replaced, an archive at night, a card service that fails
now and then, a report every hour. Everything is private to this run and gone afterwards. COMMAND is
run, with URL, user and password behind it, once the page shows all of that; without one it is served until Ctrl-C."""

import argparse
import contextlib
import datetime
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "harness"))
import pg  # noqa: E402

BIN = os.path.join(TOP, "build", "bin")
DAY = 86400
OPERATOR, PASSWORD = "ann", "demo"
OLD, NEW = "send_mail 1.0 2f9c41d07a3e", "send_mail 1.0 8be07d55c190"

CONF = """database {{ conninfo = "host={pg} port=5432 user=deferred dbname=demo" }}
plugin_dir = "{work}/plugins"
pidfile = "{work}/service"
allow_root = 1
backoff_floor = "20s"
mail {{ host = "127.0.0.1"  port = {smtp}  from = "Shop <shop@example.org>"  defer = 1 }}
function "archive" {{ command = {{"/bin/sh", "-c", "sleep 0.4"}} }}
function "report" {{ command = {{"/bin/sh", "-c", "sleep 3; echo 42 rows"}} }}
function "charge_card" {{ command = {{"/bin/sh", "-c",
    "sleep 0.1; case $(cat) in *[37]}}) echo 'gateway answered 503 Service Unavailable' >&2; exit 1;; esac"}} }}
"""


class History:
    """Jobs and attempts that were never there, in the order of time. The same seed makes the same ones, up to now."""

    def __init__(self, seed, jobs, now):
        self.random = random.Random(seed)
        self.now = now
        self.jobs = []
        self.outage = now - 2.6 * DAY
        for _ in range(jobs):
            at = self.moment()
            kind = self.random.random()
            self.mail(at) if kind < 0.72 else self.card(at)
        for night in range(8):
            begin = now - (now % DAY) - night * DAY + 2 * 3600
            for _ in range(jobs // 60):
                if now - 7 * DAY < begin < now - 3600:
                    self.add(
                        begin + self.random.random() * 60,
                        "archive",
                        "archive",
                        {"order": self.order()},
                        None,
                        wait=self.random.random() * 600,
                        run=self.random.lognormvariate(0.2, 0.6),
                        plugin="",
                    )
        for hour in range(1, 7 * 24):
            begin = now - now % 3600 - hour * 3600
            self.add(
                begin,
                "report",
                "reports",
                {"hour": time.strftime("%Y-%m-%d %H", time.gmtime(begin))},
                None,
                wait=0.4,
                run=self.random.lognormvariate(1.1, 0.2),
                plugin="",
            )
        self.jobs.sort(key=lambda job: job["at"])

    def order(self):
        return self.random.randint(10000, 99999)

    def moment(self):
        """More by day than by night, fewer at weekends."""
        while True:
            at = self.now - 180 - self.random.random() * (7 * DAY - 600)
            day = time.gmtime(at)
            share = (0.3 + 0.7 * max(0, math.sin((at % DAY / 3600 - 6) / 16 * math.pi))) * (
                0.5 if day.tm_wday >= 5 else 1
            )
            if self.random.random() < share:
                return at

    def add(self, at, fn, queue, params, label, wait, run, plugin, ends=("ok",), error=None, rss=9000, user="shop"):
        job = {"at": at, "fn": fn, "queue": queue, "params": params, "label": label, "user": user, "attempts": []}
        ready = at
        for n, outcome in enumerate(ends):
            started = ready + wait
            finished = started + run * self.random.uniform(0.8, 1.3)
            if finished > self.now - 150:
                return
            job["attempts"].append(
                (
                    outcome,
                    n == len(ends) - 1,
                    started,
                    finished,
                    wait,
                    error if outcome != "ok" else None,
                    plugin,
                    rss + self.random.randint(0, 900),
                )
            )
            ready = finished + 20 * 2**n
        self.jobs.append(job)

    def mail(self, at):
        order, name = self.order(), self.random.choice(["ann", "bob", "zoe", "kim", "lee", "ida", "tom", "eva"])
        down, new = self.outage < at < self.outage + 2400, at > self.now - 1.9 * DAY
        ends, error = ("ok",), None
        if down:
            ends, error = ("failed",) * self.random.randint(2, 4) + (
                "ok",
            ), "cannot connect to mail.example.org port 587: Connection refused"
        elif self.random.random() < 0.006:
            ends, error = (
                "failed",
                "failed",
                "failed",
            ), f"{name}{order % 97}@example.org: 550 5.1.1 mailbox unavailable"
        elif new and self.random.random() < 0.004:
            ends, error = ("crashed", "ok"), "signal 11 (Segmentation fault)"
        self.add(
            at,
            "send_mail",
            "mail",
            {"to": f"{name}@example.org", "subject": f"Your order {order}", "text": "Thank you. We are packing it.\n"},
            f"Your order {order}",
            self.random.lognormvariate(0.3, 0.9),
            self.random.lognormvariate(-1.5, 0.5) * (1.45 if new else 1),
            NEW if new else OLD,
            ends,
            error,
            17500 if new else 11200,
        )

    def card(self, at):
        bad = self.random.random()
        ends = ("ok",) if bad > 0.09 else ("failed", "ok") if bad > 0.02 else ("failed",) * 3
        order = self.order()
        self.add(
            at,
            "charge_card",
            "shop",
            {"order": order, "cents": self.random.randint(500, 90000)},
            f"Order {order}",
            self.random.lognormvariate(-0.5, 0.8),
            self.random.lognormvariate(-0.9, 0.4),
            "",
            ends,
            f"gateway answered 503 Service Unavailable (request {self.random.randint(1000, 9999)})",
            4100,
        )

    def copy(self, out):
        """As psql reads it."""

        def line(*values):
            out.write(
                "\t".join(
                    "\\N" if v is None else str(v).replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
                    for v in values
                )
                + "\n"
            )

        def when(at):
            return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).isoformat()

        out.write(
            "copy deferred.__deferred (id, queue, fn, params, label, max_attempts, created_at, created_by) from "
            "stdin;\n"
        )
        for id, job in enumerate(self.jobs, 1):
            line(
                id,
                job["queue"],
                job["fn"],
                json.dumps(job["params"]),
                job["label"],
                3 if job["fn"] == "charge_card" else None,
                when(job["at"]),
                job["user"],
            )
        out.write(
            "\\.\ncopy deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at, wait_us, "
            "run_us, error, plugin, max_rss_kb, user_us, sys_us, "
            "worker, signal) from stdin;\n"
        )
        for id, job in enumerate(self.jobs, 1):
            for n, (outcome, final, started, finished, wait, error, plugin, rss) in enumerate(job["attempts"], 1):
                run = int((finished - started) * 1e6)
                line(
                    id,
                    n,
                    outcome,
                    "t" if final else "f",
                    when(started),
                    when(finished),
                    int(wait * 1e6),
                    run,
                    error,
                    plugin or None,
                    rss,
                    run // 40,
                    run // 90,
                    1,
                    11 if outcome == "crashed" else None,
                )
        out.write(f"\\.\nselect setval('deferred.__deferred_id_seq', {len(self.jobs) + 1});\n")


class Demo:
    def __init__(self, args):
        self.args = args
        self.work = tempfile.mkdtemp(prefix="deferred-web.", dir=os.environ.get("TMPDIR", "/tmp"))
        os.chmod(self.work, 0o711)
        self.cluster = pg.Cluster(os.path.join(self.work, "pg"))
        self.started = []
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PG", "DEFERRED_"))},
            **self.cluster.env("demo"),
            "DEFERRED_CONFIG": os.path.join(self.work, "deferred.conf"),
        }

    def spawn(self, args, **more):
        log = open(os.path.join(self.work, os.path.basename(args[0]) + ".log"), "w")
        process = subprocess.Popen(args, env=self.env, stdout=log, stderr=log, **{"stdin": subprocess.DEVNULL, **more})
        self.started.append((process, log.name))
        return process

    def sql(self, text):
        return subprocess.run(
            ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1"],
            input=text,
            env=self.env,
            text=True,
            check=True,
            stdout=subprocess.PIPE,
        ).stdout

    def wait_for(self, found, what):
        deadline = time.monotonic() + 30
        while not (value := found()):
            if time.monotonic() > deadline or any(p.poll() is not None for p, _ in self.started):
                raise SystemExit(f"no {what}:\n" + "".join(open(log).read() for _, log in self.started))
            time.sleep(0.05)
        return value

    def prepare(self):
        self.cluster.start()
        self.cluster.create_db("demo")
        pg.migrate(self.cluster.conninfo("demo"))
        os.mkdir(os.path.join(self.work, "mail"))
        os.mkdir(os.path.join(self.work, "plugins"), 0o755)
        for name in ("send_mail.so", "sample.so"):
            shutil.copy(os.path.join(TOP, "build", "plugins", name), os.path.join(self.work, "plugins", name))
        self.spawn(
            [
                sys.executable,
                "-B",
                os.path.join(TOP, "tests", "harness", "smtpd.py"),
                "--port",
                "0",
                "--dir",
                os.path.join(self.work, "mail"),
            ]
        )
        log = self.started[-1][1]
        port = self.wait_for(lambda: [line[5:] for line in open(log) if line.startswith("PORT ")], "mail server")[
            0
        ].strip()
        with open(self.env["DEFERRED_CONFIG"], "w") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(CONF.format(pg=self.cluster.folder, work=self.work, smtp=port))

    def fill(self):
        history = History(self.args.seed, self.args.jobs, time.time())
        place = os.path.join(self.work, "history.sql")
        with open(place, "w") as f:
            f.write(
                "insert into deferred.__deferred_worker (instance, host, pid, version, started_at, seen_at, ended_at) "
                "values ('shop1', 'shop1', 4711, '0.1.0', now() - interval '7 days', now(), now());\n"
            )
            f.write(
                "insert into deferred.__deferred_queue (name) values ('mail'), ('shop'), ('archive'), ('reports');\n"
            )
            history.copy(f)
            f.write(
                f"""create role password_people; create role {OPERATOR} login password '{PASSWORD}' in role
                    password_people, deferred_operator;
                    update deferred.__deferred_queue set max_running = 2
                    where name = 'archive'; select deferred.__limited_add('archive');
                    select deferred.schedule('hourly_report', '0 * * * *', 'report', '{{}}', '{{"queue": "reports"}}');
                    select deferred.schedule('nightly_archive', '0 2 * * *', 'archive', '{{}}',
                    '{{"queue": "archive", "timezone": "Europe/Berlin"}}');
                    select deferred.schedule('heartbeat', 'every 15s', 'noop', '{{}}', '{{}}');
                    """
            )
        subprocess.run(
            ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-f", place], env=self.env, check=True, stdout=subprocess.DEVNULL
        )
        self.sql("select deferred.maintain(); select deferred.__fold_rebuild();")
        subprocess.run([os.path.join(BIN, "deferred"), "fold"], env=self.env, check=True, stdout=subprocess.DEVNULL)
        self.sql("vacuum analyze")
        # A backlog that its limit keeps, so that something waits.
        self.sql(
            """select deferred.defer('archive', '{"order": 1}', '{"queue": "archive"}') from generate_series(1, 400)"""
        )
        return len(history.jobs)

    def serve(self):
        self.spawn([os.path.join(BIN, "check_deferred"), "--loop", "--listen", "--runners", "3"])
        self.spawn([os.path.join(BIN, "deferred_web"), "--listen", f"127.0.0.1:{self.args.port}"])
        log = self.started[-1][1]
        at = self.wait_for(lambda: [line for line in open(log) if "listening on" in line], "page")[0]
        return "http://127.0.0.1:" + at.split(",")[0].rpartition(":")[2].strip()

    def live(self, until):
        """Jobs as they come; until() is asked between them."""
        source = random.Random(self.args.seed + 1)
        psql = self.spawn(["psql", "-XAtq"], stdin=subprocess.PIPE, text=True)
        while not until():
            order, kind = source.randint(10000, 99999), source.random()
            name = source.choice(["ann", "bob", "zoe", "kim"])
            if kind < 0.6:
                text = f"select deferred.send_mail('{name}@example.org', 'Your order {order}', 'Thank you.');"
            elif kind < 0.9:
                text = f"""select deferred.defer('charge_card', '{{"order": {order}}}',
                    '{{"queue": "shop", "label": "Order {order}", "max_attempts": 3}}');"""
            else:
                text = f"""select deferred.defer('archive', '{{"order": {order}}}', '{{"queue": "archive"}}')
                    from generate_series(1, 12);"""
            psql.stdin.write(text + "\n")
            psql.stdin.flush()
            time.sleep(source.expovariate(3))

    def stop(self):
        for process, _ in reversed(self.started):
            if process.poll() is None:
                process.terminate()
        for process, _ in self.started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            if process.poll() is None:
                process.kill()
        self.cluster.remove()
        shutil.rmtree(self.work, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100000)
    parser.add_argument("--port", type=int, default=10003)
    parser.add_argument("--jobs", type=int, default=9000)
    parser.add_argument("command", nargs="*")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    began = time.monotonic()
    print(f"seed {args.seed}: a private PostgreSQL, a private SMTP server, a week of history", flush=True)
    demo = Demo(args)
    try:
        demo.prepare()
        n = demo.fill()
        url = demo.serve()
        print(
            f"{n:,} jobs in the past, and new ones coming, after {time.monotonic() - began:.0f} s\n\n    {url}/    "
            f"user {OPERATOR}, password {PASSWORD}\n",
            flush=True,
        )
        if not args.command:
            print("Ctrl-C ends it, and leaves nothing behind.", flush=True)
            demo.live(lambda: False)
        command = subprocess.Popen([*args.command, url, OPERATOR, PASSWORD])
        demo.live(lambda: command.poll() is not None)
        return command.returncode
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        demo.stop()


if __name__ == "__main__":
    sys.exit(main())
