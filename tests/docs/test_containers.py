"""The files of cron/container and their page: what they name exists, they agree, and the worker runs as process 1.
tests/container/container.py builds and runs them."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess

import psycopg2
import pytest
import yaml

import harness
import pg
from documents import read
from harness import run, wait_for

FOLDER = os.path.join(pg.TOP, "cron", "container")
PAGE = read("docs", "how-to", "containers.md")
CONTAINERFILE = read("cron", "container", "Containerfile")
COMPOSE = yaml.safe_load(read("cron", "container", "compose.yaml"))
MANIFESTS = {
    name: list(yaml.safe_load_all(read("cron", "container", "kubernetes", name)))
    for name in sorted(os.listdir(os.path.join(FOLDER, "kubernetes")))
}
OBJECTS = {o["kind"]: o for objects in MANIFESTS.values() for o in objects}
COMMAND = json.loads(re.search(r"(?m)^CMD (.*)", CONTAINERFILE)[1])
PORT = re.search(r"127\.0\.0\.1:(\d+)/ready", CONTAINERFILE)[1]


def pod(kind):
    spec = OBJECTS[kind]["spec"]
    return (spec.get("jobTemplate", {}).get("spec") or spec)["template"]["spec"]


PODS = {kind: pod(kind) for kind in ("Deployment", "Job", "CronJob")}


def test_programs_options_and_commands_exist():
    given = [COMMAND]
    given += [s["command"] for s in COMPOSE["services"].values() if "command" in s]
    given += [p["containers"][0]["args"] for p in PODS.values()]
    given += [words.split() for words in re.findall(r"`((?:check_)?deferred(?:_\w+)? [^`]+)`", PAGE)]
    assert len(given) >= 8
    for program, *words in given:
        command = [program, words[0]] if program == "deferred" else [program]
        known = set(re.findall(r"--[a-z-]+", run([*command, "--help"]).stdout))
        assert {w for w in words if w.startswith("-")} <= known, (program, words)


def test_the_build_has_the_packages_of_make_deps_build():
    listed = re.search(r"--no-install-recommends \\\n(.*?)\nWORKDIR", CONTAINERFILE, re.S)[1].replace("\\", "").split()
    wanted = re.search(r"DEPS_BUILD := (.*?)[^\\]\n", read("cron", "packaging.mk"), re.S)[0].split("=")[1]
    assert sorted(listed) == sorted([*wanted.replace("\\", "").split(), "libdw-dev"])


def test_the_page_names_the_files_and_the_service_file_that_secrets_sh_makes(tmp_path):
    linked = set(re.findall(r"\]\(\.\./\.\./cron/container/([^)]+)\)", PAGE))
    assert linked == {"Containerfile", "compose.yaml", *(f"kubernetes/{name}" for name in MANIFESTS)}
    shown = re.search(r"(?ms)^```ini\n(.*?)^```", PAGE)[1]
    folder = make_secrets(tmp_path)
    made = (folder / "secrets" / "worker").read_text()
    assert [line.split("=")[0] for line in shown.splitlines()] == [line.split("=")[0] for line in made.splitlines()]


def test_what_the_services_of_compose_refer_to_is_there(tmp_path):
    services = COMPOSE["services"]
    used = set()
    for name, service in services.items():
        assert set(service.get("depends_on", [])) <= set(services), name
        used |= set(service.get("secrets", []))
        for variable, value in service.get("environment", {}).items():
            if value.startswith("/run/secrets/"):
                assert value.removeprefix("/run/secrets/") in service["secrets"], (name, variable)
        for word in service.get("command", []):
            if word.startswith("/run/secrets/"):
                assert word.removeprefix("/run/secrets/") in service["secrets"], (name, word)
    assert used == set(COMPOSE["secrets"])
    folder = make_secrets(tmp_path)
    assert {secret["file"] for secret in COMPOSE["secrets"].values()} == {
        f"secrets/{path.name}" for path in (folder / "secrets").iterdir()
    }
    grace = int(services["worker"]["stop_grace_period"].removesuffix("s"))
    assert grace > 5 and '"grace", MS, "5s"' in read("lib", "port", "config_table.c")


def make_secrets(tmp_path):
    folder = shutil.copytree(FOLDER, tmp_path / "container")
    made = subprocess.run(["sh", str(folder / "secrets.sh")], capture_output=True, text=True)
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    return folder


def test_secrets_are_readable_by_the_group_alone_and_stay(tmp_path):
    folder = make_secrets(tmp_path)
    before = {path.name: path.read_text() for path in (folder / "secrets").iterdir()}
    passwords = [text for text in before.values() if "password=" in text]
    assert len(set(passwords)) == 4 and all(re.search(r"password=[0-9a-f]{48}\n", text) for text in passwords)
    for path in (folder / "secrets").iterdir():
        assert path.stat().st_mode & 0o777 == 0o640, path
    subprocess.run(["sh", str(folder / "secrets.sh")], check=True)
    assert {path.name: path.read_text() for path in (folder / "secrets").iterdir()} == before


def test_roles_sql_makes_logins_and_changes_their_passwords(own_server, tmp_path):
    folder = make_secrets(tmp_path)
    command = ["psql", "-X", "-q", "-d", own_server.conninfo, "-f", str(folder / "roles.sql")]
    stored = []
    for _ in range(2):
        done = own_server.run(command, env={"SECRETS": str(folder / "secrets")})
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        rows = own_server.sql(
            "select rolname, rolpassword from pg_authid where rolname in ('worker','front','operator')"
        )
        assert len(rows) == 3 and all(password.startswith("SCRAM-SHA-256$") for _, password in rows)
        stored.append(sorted(rows))
        (folder / "secrets" / "worker").unlink()
        make_secrets_again = subprocess.run(["sh", str(folder / "secrets.sh")])
        assert make_secrets_again.returncode == 0
    for role, group in ("worker", "deferred_worker"), ("front", "deferred_http"), ("operator", "deferred_operator"):
        assert own_server.one("select pg_has_role(%s, %s, 'member')", role, group)
    assert dict(stored[0])["worker"] != dict(stored[1])["worker"]


@pytest.mark.parametrize("kind", PODS)
def test_a_pod_has_no_rights_and_its_parts_fit(kind):
    spec = PODS[kind]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] and not spec["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"requests", "limits"} <= set(container["resources"])
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in spec["volumes"]}
    (secret,) = [v["secret"] for v in spec["volumes"] if "secret" in v]
    (mount,) = [m["mountPath"] for m in container["volumeMounts"] if m["name"] == "service"]
    values = {e["name"]: e["value"] for e in container["env"]}
    assert values == {"DEFERRED_DB": "service=deferred", "PGSERVICEFILE": f"{mount}/service"}
    assert f"create secret generic {secret['secretName']} --from-file=service=" in PAGE
    # YAML 1.1 reads it as octal, as Kubernetes does. Group 0 of the image may read the file.
    assert secret["defaultMode"] == 0o440 and re.search(r"(?m)^USER \d+:0$", CONTAINERFILE)


def test_probes_budget_and_scaler_meet_the_deployment():
    deployment, budget, scaler = OBJECTS["Deployment"], OBJECTS["PodDisruptionBudget"], OBJECTS["ScaledObject"]
    (container,) = PODS["Deployment"]["containers"]
    (port,) = container["ports"]
    assert container["args"][container["args"].index("--health") + 1] == f"0.0.0.0:{port['containerPort']}"
    assert COMMAND[COMMAND.index("--health") + 1] == f"127.0.0.1:{port['containerPort']}"
    assert PORT == str(port["containerPort"])
    for probe, path in ("livenessProbe", "/live"), ("readinessProbe", "/ready"):
        assert container[probe]["httpGet"] == {"path": path, "port": port["name"]}
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == budget["spec"]["selector"]["matchLabels"] == labels
    assert deployment["spec"]["replicas"] > budget["spec"]["minAvailable"]
    assert scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    (trigger,) = scaler["spec"]["triggers"]
    assert trigger["authenticationRef"]["name"] == OBJECTS["TriggerAuthentication"]["metadata"]["name"]
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    for kind in "Deployment", "CronJob":
        assert PODS[kind]["terminationGracePeriodSeconds"] > 5


def test_the_query_of_the_scaler_counts_ready_jobs_for_a_viewer(db):
    (trigger,) = OBJECTS["ScaledObject"]["spec"]["triggers"]
    for _ in range(3):
        db.defer("noop")
    with db.connect(options="-c role=deferred_viewer") as viewer, viewer.cursor() as cursor:
        cursor.execute(trigger["metadata"]["query"])
        assert cursor.fetchall() == [(3,)]
    viewer.close()


def test_the_worker_is_process_1_reaps_the_children_of_others_and_returns_its_job_at_sigterm(db):
    """As in a container: a PID namespace of its own, and SIGTERM to process 1."""
    command = [os.path.join(harness.BUILD, "bin", COMMAND[0]), *COMMAND[1:]]
    command[command.index("--health") + 1] = f"unix:{db.dir}/health"
    contained = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    quick = db.defer("noop")
    worker = db.spawn([*contained, *command], env={"DEFERRED_GRACE": "200ms"})
    wait_for(lambda: db.log(quick) == [(1, "ok")] or not worker.alive(), 60, "it works")
    slow = db.defer("sleep", '{"ms": 600000}')
    wait_for(lambda: db.held(slow) or not worker.alive(), 60, "it holds the long job")
    assert worker.alive(), worker.output()
    (process_1,) = pg.children_of(worker.pid)
    with open(f"/proc/{process_1}/status") as f:
        assert re.search(r"(?m)^NSpid:\s+\d+\s+1$", f.read())
    # As `docker exec` does. The shell ends at once, and leaves its child to process 1.
    subprocess.run(["nsenter", "--target", str(process_1), "--pid", "sh", "-c", "sleep 0.2 &"], check=True)
    wait_for(lambda: not any(map(is_sleep, pg.children_of(process_1))), 60, "the child of the shell is reaped")
    os.kill(process_1, signal.SIGTERM)
    assert worker.wait(30) == 0, worker.output()
    assert db.log(slow) in ([], [(1, "interrupted")]) and db.hot() == 1 and not db.held(slow)


def is_sleep(pid):
    """Also when it has ended and nobody has reaped it."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/comm") as f:
        return f.read() == "sleep\n"
