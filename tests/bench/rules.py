"""`make bench-rules`: the cost to make jobs of rows, and the speed of the example of rules
(tests/demo/archive.sql) with 1 to many agents.

    rules.py [--quick] [--rows N] [--archive N] [--rounds N] [--seconds N]

A private server with durable settings is started for it. Queueing is compared, in turns, with
INSERT ... SELECT of the same rows into a bare table, and into both tables with their indexes. No way
of queueing can do less than the second. Then all agents work on one backlog, and their number
changes meanwhile. The figures are archived rows per second for each number of agents. At the end
each old row must have been archived exactly once. Figures go to the terminal and to
build/bench/rules.json.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import plain  # noqa: E402
import report  # noqa: E402
from stage import SETTINGS, Failed, Stage, pg  # noqa: E402
from turns import in_turns  # noqa: E402

RULES = {
    "archive_documents": "select 'document' as \"table\", id, 'document-' || id as key from app.document "
    "where changed_at < now() - interval '3 years'",
    "archive_tasks": "select 'task' as \"table\", id, 'task-' || id as key from app.task "
    "where done_at < now() - interval '3 years'",
}
AGENTS = (1, 2, 8, 50)

EMPTY = (
    "truncate bare_jobs, plain.hot, plain.job, deferred.__deferred, deferred.__deferred_hot, deferred.__deferred_log,"
    " deferred.__deferred_worker"
)

# What a rule's row becomes, by hand.
ROW = "row_to_json(r) as params, r.key from ({query}) r"
BARE = (
    "insert into bare_jobs select nextval('plain.id'), 'default', 'archive_row', r.params, r.key, now(), current_user"
    " from (select " + ROW + ") r"
)
BOTH = (
    "with r as materialized (select nextval('plain.id') as id, "
    + ROW
    + "), h as (insert into plain.hot (id, queue, fn, visible_at, key)"
    " select id, 'default', 'archive_row', now(), key from r on conflict (queue, key) where key is not null do nothing)"
    " insert into plain.job (id, queue, fn, params, key, created_at, created_by)"
    " select id, 'default', 'archive_row', params, key, now(), current_user from r"
)


def peak_kb(pid):
    """Of the program itself: what wait4() tells includes the Python it was forked from."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            if not f.read().split(b"\0")[0].endswith(b"/deferred"):
                return 0
        with open(f"/proc/{pid}/status") as f:
            return max([int(line.split()[1]) for line in f if line.startswith("VmHWM:")], default=0)
    except OSError:
        return 0


class Rules:
    def __init__(self, args, folder):
        self.stage, self.db = Stage(folder), None
        self.rows = args.rows or (5000 if args.quick else 1000000)
        self.some = min(self.rows, args.archive or 100000)
        self.rounds = args.rounds or (1 if args.quick else 3)
        self.phase = args.seconds or (2 if args.quick else 20)
        self.peak_kb = 0
        self.agents = []
        self.measured = []

    def prepare(self):
        self.stage.start()
        self.db = self.stage.database("bench_rules")
        self.conninfo, self.sql, self.folder = self.db.conninfo, self.db.sql, self.stage.folder
        plain.Plain(self.db)
        pg.call(
            [
                "psql",
                "-X",
                "-q",
                "-v",
                "ON_ERROR_STOP=1",
                "-v",
                f"rows={self.rows}",
                "-d",
                self.conninfo,
                "-f",
                os.path.join(pg.TOP, "tests", "demo", "archive.sql"),
            ]
        )
        self.sql(
            "create table bare_jobs (id bigint, queue text, fn text, params json, key text, created_at timestamptz, "
            "created_by name)"
        )
        self.config = os.path.join(self.folder, "deferred.conf")
        with open(self.config, "w") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(f'settings "archive" {{ conninfo = "{self.conninfo}" }}\n')
        for name, query in RULES.items():
            self.deferred("rule", "add", name, "archive_row", query, "--key", "key")

    def deferred(self, *args):
        """Its answer; its peak memory is kept."""
        process = subprocess.Popen(
            [os.path.join(pg.BUILD, "bin", "deferred"), "--db", self.conninfo, "--config", self.config, *args],
            stdout=subprocess.PIPE,
            text=True,
        )
        while process.poll() is None:  # it says less than fills the pipe
            self.peak_kb = max(self.peak_kb, peak_kb(process.pid))
            time.sleep(0.01)
        out = process.stdout.read()
        if process.returncode != 0:
            raise Failed(f"deferred {' '.join(args)}: exit status {process.returncode}\n{out}")
        return out

    def settle(self):
        """The same start for what is measured next; the example's tables are in it too."""
        self.sql("vacuum analyze")
        self.sql("checkpoint")

    # ---- queueing

    def by_hand(self, statement):
        self.sql(EMPTY)
        self.settle()
        start = time.monotonic()
        self.sql(statement.format(query=RULES["archive_documents"]))
        return self.old / (time.monotonic() - start)

    def by_rule(self, again):
        if not again:
            self.sql(EMPTY)
        else:
            self.deferred("rule", "run", "archive_documents")
        self.settle()
        start = time.monotonic()
        [answer] = json.loads(self.deferred("rule", "run", "archive_documents", "--json"))
        seconds = time.monotonic() - start
        if answer["skipped" if again else "queued"] != self.old or answer["failed"]:
            raise Failed(str(answer))
        return self.old / seconds

    def queue(self):
        self.old = self.sql("select count(*) from app.document where changed_at < now() - interval '3 years'")[0][0]
        f = in_turns(
            {
                "bare": lambda: self.by_hand(BARE),
                "both": lambda: self.by_hand(BOTH),
                "rule": lambda: self.by_rule(False),
                "again": lambda: self.by_rule(True),
            },
            self.rounds,
            self.report.say,
            self.measured,
        )
        row = self.report.row
        row(f"jobs of {self.old:,} rows: INSERT ... SELECT into a bare table", f["bare"], "rows/s")
        row("INSERT ... SELECT into both tables, with indexes", f["both"], "rows/s", f["bare"])
        row("deferred rule run", f["rule"], "rows/s", f["bare"])
        row("the same against both tables", f["rule"], "rows/s", f["both"], least=0.8)
        row("deferred rule run, all rows hot already", f["again"], "rows/s", f["bare"])
        row("peak memory of deferred", self.peak_kb / 1024, "MiB")

    # ---- archiving

    def agent(self):
        n = len(self.agents)
        log = open(os.path.join(self.folder, f"agent{n}.log"), "w")
        self.agents.append(
            subprocess.Popen(
                [
                    os.path.join(pg.BUILD, "bin", "check_deferred"),
                    "--db",
                    self.conninfo,
                    "--config",
                    self.config,
                    "--pidfile",
                    os.path.join(self.stage.run_dir, f"agent{n}"),
                    "--plugin-dir",
                    self.plugins,
                    "--cnt",
                    "0",
                    "--runners",
                    "1",
                    "--log-level",
                    "error",
                    "--allow-root",
                ],
                stdout=log,
                stderr=log,
            )
        )
        log.close()

    def archived(self):
        return self.sql("select (select count(*) from app.document_archive) + (select count(*) from app.task_archive)")[
            0
        ][0]

    def archive(self):
        self.sql(EMPTY)
        # Stock plugins and the example's, in a folder of our own.
        self.plugins = os.path.join(self.folder, "plugins")
        os.mkdir(self.plugins, 0o755)
        subprocess.run(
            ["install", "-m", "755", os.path.join(pg.BUILD, "tests", "plugins", "archive.so"), self.plugins], check=True
        )
        for name, query in RULES.items():  # each row is a durable transaction: not all of them
            self.deferred("rule", "rm", name)
            self.deferred("rule", "add", name, "archive_row", f"{query} and id <= {self.some}", "--key", "key")
        answers = json.loads(self.deferred("rule", "run", "--json"))
        total = sum(a["queued"] for a in answers)
        self.settle()
        figures = {}
        for n in AGENTS:
            while len(self.agents) < n:
                self.agent()
            time.sleep(self.phase / 4)  # they start, and share the backlog
            start, before = time.monotonic(), self.archived()
            time.sleep(self.phase)
            after, seconds = self.archived(), time.monotonic() - start
            if after == total:
                self.report.say(f"{n} agents: the backlog ended before they were measured; use more --rows")
                break
            figures[n] = (after - before) / seconds
            self.report.row(
                f"archiving {total:,} rows, {n} agent{'s' if n > 1 else ''}, each with one runner",
                figures[n],
                "rows/s",
                figures[min(figures)],
            )
        # Some are killed, the others told to end, and a few do the rest.
        for a in self.agents[::5]:
            a.kill()
        for a in self.agents[1::5] + self.agents[2::5]:
            a.terminate()
        for a in self.agents:
            a.wait()
        killed, self.agents = len(self.agents[::5]), []
        while self.sql("select exists (select from deferred.__deferred_hot)")[0][0]:
            self.agents = []
            for _ in range(8):  # on the pid files of those before, whose jobs they so take back
                self.agent()
            for a in self.agents:
                a.wait()
        for table in ("document", "task"):
            count = self.sql(
                f"select count(*), count(distinct id), (select count(*) from app.{table}) from app.{table}_archive"
            )[0]
            old = self.some - self.some // 10
            if count != (old, old, self.rows - old):
                raise Failed(f"{table}: {count} archived, different, left")
        self.report.say(
            f"every one of {total:,} rows was archived exactly once, {killed} agents having been killed by SIGKILL at "
            f"work"
        )

    def close(self):
        for a in self.agents:
            if a.poll() is None:
                a.kill()
                a.wait()
        if self.db:
            self.db.close()
        self.stage.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: shows that it works")
    parser.add_argument("--rows", type=int, help="rows of each table; nine of ten are old")
    parser.add_argument("--archive", type=int, help="of how many of them the old ones are archived")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="how long so many agents are measured")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))  # so that the server is stopped
    out = os.path.join(pg.BUILD, "bench")
    os.makedirs(out, exist_ok=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="deferred-bench.") as folder:
        rules = Rules(args, folder)
        try:
            rules.prepare()
            about = report.about(args.quick, rules.stage.server_version(), SETTINGS, folder, rules.rounds)
            rules.report = report.Report("rules", "Rules: jobs made of rows, and rows archived", out, about)
            print(report.head(about))
            rules.queue()
            rules.archive()
        except Failed as e:
            sys.exit(f"bench: {e}")
        finally:
            rules.close()
    rules.report.fact("rounds_of", rules.measured)
    rules.report.finish(time.monotonic() - begin)


if __name__ == "__main__":
    main()
