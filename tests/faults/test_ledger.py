"""`make ledger` notices what it is there for."""

import os
import sys

import pytest

import pg
from growth import is_flat
from harness import run
from verdict import Execution, overlaps, recoveries

# A program that loses each fortieth job, and accepts each fiftieth twice.
BROKEN = """
create function public.break_hot() returns trigger language plpgsql as $$
begin delete from deferred.__deferred_hot h where h.id = new.id; return null; end $$;
create trigger break after insert on deferred.__deferred_hot for each row when (new.id % 40 = 0
and new.fn is not null) execute function public.break_hot();
create function public.break_log() returns trigger language plpgsql as $$
begin
    insert into deferred.__deferred_log (job_id, attempt, outcome, final) values (new.job_id, 1000, 'ok', true);
    return null;
end $$;
create trigger break after insert on deferred.__deferred_log for each row when (new.job_id % 50 = 1
and new.outcome = 'ok' and new.attempt < 1000)
    execute function public.break_log();
"""


def execution(job, begun, ended, pid=1):
    made = Execution(job, 1, pid, begun)
    made.ended = ended
    return made


def test_what_is_counted():
    apart = [execution(1, 0, 10), execution(1, 10, 20), execution(1, 15, None)]
    assert overlaps(apart) == []
    within = [execution(1, 0, 100), execution(1, 5, 10), execution(1, 50, 60)]
    assert overlaps(within) == within[1:]
    runs = [execution(1, 0, None, pid=7), execution(2, 0, 40, pid=8), execution(1, 1500, 1600, pid=9)]
    assert recoveries([("kill", 20, [7]), ("restart", 20, [])], runs) == {"kill": [1.48], "restart": [0.02]}


def test_what_is_said_to_grow():
    """The numbers are those of runs, the first ones without a purge: tables of jobs, of the log, and partitions."""
    for unit, *weeks in ("kB", 448, 656, 840), ("kB", 872, 1128, 1384), ("", 15, 18, 21), ("", 12, 12, 16):
        assert not is_flat(weeks, unit), weeks
    for unit, *weeks in ("kB", 656, 680, 680), ("kB", 224, 240, 272), ("", 12, 9, 12), ("", 14, 14, 14):
        assert is_flat(weeks, unit), weeks


@pytest.mark.long
def test_a_broken_program_is_noticed(tmp_path):
    sql = tmp_path / "broken.sql"
    sql.write_text(BROKEN)
    done = run(
        [
            sys.executable,
            os.path.join(pg.TOP, "tests", "faults", "ledger.py"),
            "--seed",
            "1",
            "--jobs",
            "300",
            "--kills",
            "4",
            "--only",
            "service",
            "--sql",
            str(sql),
            "--lines",
            str(tmp_path / "lines"),
        ],
        env={"DEFERRED_BUILD": os.environ.get("DEFERRED_BUILD", "build")},
        timeout=300,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    total = next(line for line in done.stdout.splitlines() if line.startswith("service all: "))
    assert "lost 0" not in total and "accepted twice 0" not in total, total
    assert "WRONG: service" in done.stdout
    assert '"verdict": ["lost"]' in (tmp_path / "lines").read_text()
