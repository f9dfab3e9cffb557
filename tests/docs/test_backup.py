"""The how-to page about backups, typed on two servers: a dump, the restore on the other one, and the failover line."""

import os

import pytest

import harness
import pg
from documents import fenced, read

DUMP, RESTORE, FAILOVER = fenced(read("docs", "how-to", "backup-and-failover.md"))


@pytest.fixture
def two():
    here = harness.OwnServer()
    there = pg.Cluster(here.cluster.folder + "_there").start()
    yield here, there
    here.close()
    there.stop("immediate")


def shell(text, cluster, folder):
    env = {**cluster.env(), "PATH": f"{harness.BUILD}/bin:{os.environ['PATH']}"}
    done = harness.run(["bash", "-e", "-c", text.replace("dump app", "dump own")], env=env, cwd=folder)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


@pytest.mark.slow
def test_a_dump_is_restored_on_another_server_and_workers_go_over(two, tmp_path):
    here, there = two
    done, claimed, waiting = (here.defer("noop") for _ in range(3))
    assert here.run(["check_deferred"]).returncode == 0
    ended = here.one("select job_id from deferred.__deferred_log")
    held = min({done, claimed, waiting} - {ended})
    here.hold(held, lease="1 second")
    shell(DUMP, here.cluster, tmp_path)
    said = shell(RESTORE, there, tmp_path)
    assert "nothing to do" in said or "up to date" in said, said
    conninfo = there.conninfo("restored")
    listed = harness.run(
        [harness.program("deferred"), "ls", "--json"], env={"DEFERRED_DB": conninfo, "DEFERRED_CONFIG": os.devnull}
    )
    assert sorted(job["id"] for job in harness.json_once(listed.stdout)) == sorted({done, claimed, waiting} - {ended})
    # The failover line, with the names of these two servers. The first one is away.
    line = FAILOVER.replace("host=db1,db2", f"host={here.cluster.folder},{there.folder} port={pg.PORT} user={pg.USER}")
    config = tmp_path / "deferred.conf"
    config.write_text(line.replace("dbname=app", "dbname=restored"))
    config.chmod(0o600)
    here.stop()
    env = {**here.env, "DEFERRED_CONFIG": str(config)}
    env.pop("DEFERRED_DB", None)

    def all_done():
        run = harness.run([harness.program("check_deferred"), "--cnt", "0"], env=env)
        assert run.returncode == 0, run
        left = harness.run([harness.program("deferred"), "ls", "--json"], env=env)
        return left.returncode == 0 and harness.json_once(left.stdout) == []

    harness.wait_for(all_done, 60, "the claimed job too, when its lease has ended")
    here.start()
