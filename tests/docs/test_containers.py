"""The page about containers: its YAML is valid, what it names exists, and its worker runs as process 1."""

import json
import os
import re
import signal

import yaml

import harness
import pg
from documents import read
from harness import run, wait_for

PAGE = read("docs", "how-to", "containers.md")
DOCKERFILE, COMPOSE, DEPLOYMENT = re.findall(r"(?ms)^```(?:dockerfile|yaml)\n(.*?)^```$", PAGE)
ENTRYPOINT = json.loads(re.search(r"(?m)^ENTRYPOINT (.*)", DOCKERFILE)[1])


def options(program):
    return set(re.findall(r"--[a-z-]+", run([program, "--help"]).stdout))


def test_programs_options_and_figures_of_the_page_exist():
    services, deployment = yaml.safe_load(COMPOSE)["services"], yaml.safe_load(DEPLOYMENT)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = [ENTRYPOINT, services["migrate"]["entrypoint"], [ENTRYPOINT[0], *container["args"]]]
    given += [words.split() for words in re.findall(r"`((?:check_)?deferred [^`]+)`", PAGE)]
    for program, *words in given:
        assert {w for w in words if w.startswith("-")} <= options(os.path.basename(program)), (program, words)
    installed = read("cron", "debian", "deferred.install").split()
    assert {program.lstrip("/") for program, *_ in given[:3]} <= set(installed)
    assert re.search(r"`(deferred_\w+_seconds)`", PAGE)[1] in read("docs", "man", "deferred-metrics.1")
    assert "terminationGracePeriodSeconds" in COMPOSE + DEPLOYMENT
    assert {"deferred.conf", "functions/"} == set(re.findall(r"(?m)^COPY (?!build)(\S+)", DOCKERFILE))


def test_what_the_files_of_compose_refer_to_is_there():
    compose = yaml.safe_load(COMPOSE)
    for service in compose["services"].values():
        assert set(service.get("secrets", [])) <= set(compose["secrets"])
        assert set(service.get("depends_on", [])) <= set(compose["services"])
        for name in service.get("env_file", []):
            assert f"`{name}`" in PAGE
    grace = int(compose["services"]["worker"]["stop_grace_period"].removesuffix("s"))
    assert grace > 5 and '"grace", MS, "5s"' in read("lib", "port", "config_table.c")


def test_the_worker_runs_as_process_1_and_returns_its_job_at_sigterm(db):
    """As in a container: a PID namespace of its own, and SIGTERM to process 1."""
    command = [os.path.join(harness.BUILD, "bin", os.path.basename(ENTRYPOINT[0])), *ENTRYPOINT[1:]]
    command[command.index("--pidfile") + 1] = db.dir + "/worker"
    contained = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    quick = db.defer("noop")
    worker = db.spawn([*contained, *command], env={"DEFERRED_GRACE": "200ms"})
    wait_for(lambda: db.log(quick) == [(1, "ok")] or not worker.alive(), 60, "it works")
    slow = db.defer("sleep", '{"ms": 600000}')
    wait_for(lambda: db.held(slow) or not worker.alive(), 60, "it holds the long job")
    assert worker.alive(), worker.output()
    with open(f"/proc/{worker.pid}/task/{worker.pid}/children") as f:
        (process_1,) = map(int, f.read().split())
    with open(f"/proc/{process_1}/status") as f:
        assert re.search(r"(?m)^NSpid:\s+\d+\s+1$", f.read())
    os.kill(process_1, signal.SIGTERM)
    assert worker.wait(30) == 0, worker.output()
    assert db.log(slow) in ([], [(1, "interrupted")]) and db.hot() == 1 and not db.held(slow)
