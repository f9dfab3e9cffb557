"""Builds the image of cron/container with podman, and runs the services of compose.yaml and the pods of
Kubernetes as these files describe them, against a private server. Validates the files against the
schemas of Compose, Kubernetes and KEDA.

`make check-container` runs this, as root. It takes minutes, and the base image comes from mmdebstrap, so
it is not part of `make check`.
"""

import base64
import contextlib
import copy
import ctypes
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import urllib.error
import urllib.request

import psycopg2
import pytest
import yaml

import harness
import pg
from documents import read
from harness import wait_for

FOLDER = os.path.join(pg.TOP, "cron", "container")
PLACE = os.path.join(pg.BUILD, "container")
PAGE = read("docs", "how-to", "containers.md")
COMPOSE = yaml.safe_load(read("cron", "container", "compose.yaml"))["services"]
MANIFESTS = [
    o
    for name in sorted(os.listdir(f"{FOLDER}/kubernetes"))
    for o in yaml.safe_load_all(read("cron", "container", "kubernetes", name))
]
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000

# A resident program, by the protocol of deferred_program(7) through the library for Python.
PROGRAM = '''\
import os
import subprocess
import time

import deferred

@deferred.function("shop_who")
def who(params, job):
    """Says who runs it, and leaves a process behind."""
    subprocess.Popen(["sleep", "0.2"], start_new_session=True)
    try:
        open("/written", "w")
        written = True
    except OSError as error:
        written = error.strerror
    with open("/proc/self/status") as f:
        status = dict(line.split(":", 1) for line in f)
    return {"uid": os.getuid(), "written": written, "rights": int(status["CapEff"], 16), "home": os.environ["HOME"]}

@deferred.function("shop_slow", timeout="10min")
def slow(params, job):
    time.sleep(600)
'''
CONFIG = """
grace = 300ms
program "shop" {
	command = {"/usr/bin/python3", "-m", "deferred", "shop"}
	directory = "/usr/local/lib/shop"
}
"""


def call(args, **kw):
    done = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True, **kw)
    assert done.returncode == 0, f"{args}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-6000:]}"
    return done.stdout


def unshare(kinds):
    """This process and what it starts get namespaces of their own."""
    if ctypes.CDLL(None, use_errno=True).unshare(kinds) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


# ---- schemas


def faults(objects):
    done = subprocess.run(
        ["node", os.path.join(PLACE, "schemas.mjs")], input=json.dumps(objects), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def of_kind(kind):
    return next(o for o in MANIFESTS if o["kind"] == kind)


def container_of(kind):
    spec = of_kind(kind)["spec"]
    return (spec.get("jobTemplate", {}).get("spec") or spec)["template"]["spec"]["containers"][0]


def test_the_files_follow_their_schemas():
    files = [yaml.safe_load(read("cron", "container", "compose.yaml")), *MANIFESTS]
    assert len(files) == 7 and faults(files) == [[]] * 7


PROBE = ("spec", "template", "spec", "containers", 0, "livenessProbe")


@pytest.mark.parametrize(
    "kind, place, value, fault",
    [
        ("Deployment", ("spec", "template", "spec", "containers", 0, "livenesProbe"), {}, "livenesProbe is unknown"),
        ("Deployment", (*PROBE, "periodSeconds"), "10s", "periodSeconds must be integer"),
        ("Deployment", (*PROBE, "httpGet", "port"), None, "port must be string"),
        ("Deployment", (*PROBE, "httpGet", "prot"), "health", "httpGet/prot is unknown"),
        ("Deployment", ("spec", "template", "spec", "securityContex"), {}, "securityContex is unknown"),
        ("Deployment", ("spec", "replicas"), "2", "replicas must be integer"),
        ("CronJob", ("spec", "concurrencyPolicy"), "Skip", "concurrencyPolicy must be equal to one of"),
        ("Job", ("spec", "backofLimit"), 4, "/spec/backofLimit is unknown"),
        ("PodDisruptionBudget", ("spec", "minAvailble"), 1, "/spec/minAvailble is unknown"),
        ("ScaledObject", ("spec", "minReplicas"), 1, "/spec/minReplicas is unknown"),
        ("ScaledObject", ("spec", "pollingInterval"), "15s", "pollingInterval must be integer"),
        ("ScaledObject", ("spec", "triggers", 0, "metadata", "port"), 5432, "port must be string"),
        ("TriggerAuthentication", ("spec", "secretTargetRef", 0, "secret"), "x", "secretTargetRef/0/secret is unknown"),
        (None, ("services", "worker", "comand"), [], "must NOT have additional properties"),
        (None, ("services", "worker", "stop_grace_period"), 30, "stop_grace_period must be string"),
        (None, ("services", "db", "healthcheck", "retry"), 3, "must NOT have additional properties"),
        (None, ("services", "web", "depends_on", "roles", "condition"), "done", "must be equal to one of"),
    ],
)
def test_a_mistake_in_a_file_is_refused(kind, place, value, fault):
    spoiled = copy.deepcopy(of_kind(kind) if kind else yaml.safe_load(read("cron", "container", "compose.yaml")))
    inner = spoiled
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    (found,) = faults([spoiled])
    assert fault in ", ".join(found), found


# ---- the image


class Podman:
    """Podman with a store of its own. No systemd and no resource control are needed."""

    def __init__(self):
        self.args = ["podman", "--root", f"{PLACE}/store", "--runroot", f"{PLACE}/run"]
        self.args += ["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"]
        self.env = {**os.environ, "DISABLE_HC_SYSTEMD": "true"}

    def __call__(self, *args):
        return call([*self.args, *args], env=self.env)

    def code(self, *args):
        return subprocess.run([*self.args, *args], env=self.env, capture_output=True, timeout=600).returncode

    def build(self, tag, file, context, *args):
        """Without cached layers, which vfs stores as whole copies."""
        args += ("--format", "docker", "--pull-never", "--layers=false", "-t", tag, "-f", file, context)
        self("build", "--isolation", "chroot", *args)


@pytest.fixture(scope="module")
def podman():
    """Mounts are private. crun refuses the first version of control groups, so the second is mounted over it."""
    unshare(CLONE_NEWNS)
    call(["mount", "--make-rprivate", "/"])
    if not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        call(["umount", "--recursive", "/sys/fs/cgroup"])
        call(["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"])
    podman = Podman()
    base = re.search(r"(?m)^FROM (debian:13)$", read("cron", "container", "Containerfile"))[1]
    if podman.code("image", "exists", base) != 0:
        call(["mmdebstrap", "--quiet", "--variant=minbase", "trixie", f"{PLACE}/base.tar"])
        podman("import", "--quiet", f"{PLACE}/base.tar", base)
        os.unlink(f"{PLACE}/base.tar")
    return podman


@pytest.fixture(scope="module")
def image(podman, tmp_path_factory):
    """The image with Python, and the one of the page, which adds functions to it."""
    podman.build("deferred", f"{FOLDER}/Containerfile", pg.TOP, "--build-arg", "PACKAGES=python3")
    context = tmp_path_factory.mktemp("shop")
    os.mkdir(context / "functions")
    for name, text in ("functions/shop.py", PROGRAM), ("deferred.conf", CONFIG):
        (context / name).write_text(text)
    (context / "Containerfile").write_text(re.search(r"(?ms)^```dockerfile\n(.*?)^```", PAGE)[1])
    podman.build("shop", str(context / "Containerfile"), str(context))
    return "shop"


# ---- the services


class Stack:
    """The private server in the place of service db, the secrets, and a network of its own in which both have the
    addresses and ports of the files."""

    def __init__(self, podman, image, server, folder):
        self.podman, self.image, self.server, self.folder = podman, image, server, folder
        self.secrets = folder / "secrets"
        self.names = []

    def password(self, role):
        return re.search(r"(?m)^password=(.*)", (self.secrets / role).read_text())[1]

    def start(self, name, image, command, environment, mounts, *more, wait=False):
        args = ["run", "--name", name, "--network", "host", "--add-host", "db:127.0.0.1", "--cgroups", "disabled"]
        args += [
            "--ulimit",
            "nofile=1024:1024",
            "--ulimit",
            "nproc=1024:1024",
            "--read-only",
            "--read-only-tmpfs=false",
        ]
        args += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", *more]
        args += [] if wait else ["--detach"]
        for variable, value in environment.items():
            args += ["--env", f"{variable}={value}"]
        for source, target in mounts:
            args += ["--volume", f"{source}:{target}:ro"]
        self.names.append(name)
        return self.podman(*args, image, *command)

    def compose(self, service, *command, name=None, wait=False):
        """Starts a service as compose.yaml describes it."""
        found = COMPOSE[service]
        assert (
            found["read_only"] and found["cap_drop"] == ["ALL"] and found["security_opt"] == ["no-new-privileges:true"]
        )
        more = [word for path in found["tmpfs"] for word in ("--tmpfs", path)]
        test = found.get("healthcheck", {}).get("test")
        if test:
            assert test[0] == "CMD"
            more += ["--health-cmd", json.dumps(test[1:]), "--health-interval", "disable"]
        mounts = [(self.secrets / secret, f"/run/secrets/{secret}") for secret in found.get("secrets", [])]
        image = self.image if service == "worker" else found["image"]
        command = command or found.get("command", [])
        return self.start(name or service, image, command, found["environment"], mounts, *more, wait=wait)

    def pod(self, kind, role, *more, wait=False):
        """Starts the container of a manifest. The secret has owner root, group root and mode 440, as in Kubernetes."""
        container = container_of(kind)
        volumes = self.folder / f"pod-{kind}"
        os.makedirs(volumes)
        shutil.copy(self.secrets / role, volumes / "service")
        os.chmod(volumes / "service", 0o440)
        mounts = [(volumes, m["mountPath"]) for m in container["volumeMounts"] if m["name"] == "service"]
        more += tuple(w for m in container["volumeMounts"] if m["name"] == "tmp" for w in ("--tmpfs", m["mountPath"]))
        environment = {e["name"]: e["value"] for e in container["env"]}
        return self.start(kind.lower(), self.image, container["args"], environment, mounts, *more, wait=wait)

    def pid(self, name):
        return int(self.podman("inspect", "--format", "{{.State.Pid}}", name))

    def healthy(self, name):
        return self.podman.code("healthcheck", "run", name) == 0

    def logs(self, name):
        done = subprocess.run([*self.podman.args, "logs", name], env=self.podman.env, capture_output=True, text=True)
        return done.stdout + done.stderr

    def becomes(self, name, healthy):
        wait_for(lambda: self.healthy(name) == healthy, 60, f"{name} is {'' if healthy else 'un'}healthy")


@pytest.fixture(scope="module")
def stack(podman, image, tmp_path_factory):
    unshare(CLONE_NEWNET)
    call(["ip", "link", "set", "lo", "up"])
    folder = shutil.copytree(FOLDER, tmp_path_factory.mktemp("compose") / "container")
    call(["sh", str(folder / "secrets.sh")])
    server = pg.Cluster(os.path.join(harness.root(), "app"), settings={"listen_addresses": "'127.0.0.1'"})
    server.start().create_db("app")
    with open(f"{server.data}/pg_hba.conf", "r+") as f:
        rules = f.read()
        f.seek(0)
        f.write("host all all 127.0.0.1/32 scram-sha-256\n" + rules)
    stack = Stack(podman, image, server, folder)
    # As the image of PostgreSQL does.
    with contextlib.closing(
        psycopg2.connect(server.conninfo("app"))
    ) as connection, connection, connection.cursor() as c:
        c.execute(
            "create role postgres login superuser password %s",
            ((stack.secrets / "postgres.password").read_text().strip(),),
        )
        c.execute("select pg_reload_conf()")
    stack.compose("migrate", wait=True)
    roles = COMPOSE["roles"]
    given = {"PGSERVICEFILE": str(stack.secrets / "postgres"), "SECRETS": str(stack.secrets), "PGHOSTADDR": "127.0.0.1"}
    assert set(roles["environment"]) == set(given) - {"PGHOSTADDR"}
    command = [str(folder / "roles.sql") if word == "/roles.sql" else word for word in roles["entrypoint"]]
    call(command, env={"PATH": os.environ["PATH"], **given})
    yield stack
    for name in stack.names:
        podman.code("rm", "--force", "--time", "0", name)
    server.stop("immediate")
    server.remove()


@pytest.fixture
def sql(stack):
    connection = psycopg2.connect(stack.server.conninfo("app"))
    connection.autocommit = True
    cursor = connection.cursor()

    def run(query, *args):
        cursor.execute(query, args or None)
        return cursor.fetchall()

    yield run
    connection.close()


def ended(sql, job):
    return sql("select outcome, result::json from deferred.__deferred_log where job_id = %s", job)


def test_no_secret_is_in_a_command_line_a_variable_or_the_image(stack):
    stack.compose("worker")
    secrets = [stack.password(role) for role in ("postgres", "worker", "front", "operator")]
    secrets.append((stack.secrets / "http.key").read_text().strip())
    seen = stack.podman("inspect", *stack.names) + stack.podman("image", "inspect", "deferred", stack.image)
    for pid in pg.children_of(stack.pid("worker")) + [stack.pid("worker")]:
        for name in "cmdline", "environ":
            with open(f"/proc/{pid}/{name}", errors="replace") as f:
                seen += f.read()
    assert "/run/secrets/worker" in seen and not [secret for secret in secrets if secret in seen]


def test_the_worker_runs_jobs_without_rights_and_reaps_what_others_leave(stack, sql):
    """A resident program in Python leaves a process behind, and so does a shell in the container."""
    ((job,),) = sql("select deferred.defer('shop_who', '{}')")
    wait_for(lambda: ended(sql, job), 60, "the job has ended")
    assert ended(sql, job) == [
        ("ok", {"uid": 10001, "written": "Read-only file system", "rights": 0, "home": "/var/lib/deferred"})
    ]
    process_1 = stack.pid("worker")
    with open(f"/proc/{process_1}/status") as f:
        status = f.read()
    assert re.search(r"(?m)^Name:\s+check_deferred$", status) and re.search(r"(?m)^NSpid:\s+\d+\s+1$", status)
    assert re.search(r"(?m)^Uid:(\s+10001){4}$", status) and re.search(r"(?m)^CapEff:\s+0+$", status)
    stack.podman("exec", "worker", "sh", "-c", "sleep 0.2 &")
    wait_for(lambda: not any(map(is_sleep, pg.children_of(process_1))), 60, "the child of the shell is reaped")


def is_sleep(pid):
    """Also when it has ended and nobody has reaped it."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/comm") as f:
        return f.read() == "sleep\n"


def test_the_health_check_of_the_worker_follows_the_server(stack):
    stack.becomes("worker", True)
    stack.server.stop("immediate")
    stack.becomes("worker", False)
    stack.server.start()
    stack.becomes("worker", True)


def test_a_worker_that_hangs_is_unhealthy(stack):
    os.kill(stack.pid("worker"), signal.SIGSTOP)
    stack.becomes("worker", False)
    os.kill(stack.pid("worker"), signal.SIGCONT)
    stack.becomes("worker", True)


def test_sigterm_returns_the_job_and_the_next_worker_runs_it(stack, sql):
    ((job,),) = sql("select deferred.defer('shop_slow', '{}')")
    held = "select worker from deferred.__held where id = %s"
    wait_for(lambda: sql(held, job), 60, "the worker holds the job")
    grace = int(COMPOSE["worker"]["stop_grace_period"].removesuffix("s"))
    stack.podman("stop", "--time", str(grace), "worker")
    assert stack.podman("inspect", "--format", "{{.State.ExitCode}}", "worker") == "0\n", stack.logs("worker")
    assert not sql(held, job) and ended(sql, job) in ([], [("interrupted", None)])
    stack.podman("start", "worker")
    wait_for(lambda: sql(held, job), 60, "the next worker holds the job")
    assert sql("select deferred.cancel(%s)", job)
    stack.podman("stop", "--time", str(grace), "worker")


def open_page(url, user=None, password=None):
    """The status that url answers with."""
    request = urllib.request.Request(url)
    if user:
        request.add_header("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_the_pages_ask_for_a_login(stack):
    stack.compose("web")
    stack.becomes("web", True)
    url = "https://localhost:10003/queues"
    assert open_page(url) == 401 and open_page(url, "operator", "wrong") == 401
    assert open_page(url, "operator", stack.password("operator")) == 200
    stack.podman("stop", "web")
    assert not stack.healthy("web")


def test_the_http_server_is_ready_as_long_as_it_reaches_the_server(stack):
    account = ("deferred", "account", "add", "acme", "--endpoint", "http://127.0.0.1:10001")
    assert "AccountName=acme" in stack.compose("migrate", *account, name="account", wait=True)
    stack.compose("http")
    stack.becomes("http", True)
    stack.server.stop("immediate")
    stack.becomes("http", False)
    stack.server.start()
    stack.becomes("http", True)


def test_the_pods_of_kubernetes_run_with_their_probes(stack, sql):
    stack.pod("Job", "postgres", wait=True)
    ((job,),) = sql("select deferred.defer('shop_who', '{}')")
    stack.pod("CronJob", "worker", wait=True)
    assert [outcome for outcome, _ in ended(sql, job)] == ["ok"]
    stack.pod("Deployment", "worker")
    container = container_of("Deployment")
    port = container["ports"][0]["containerPort"]

    def answers(probe, status):
        url = f"http://127.0.0.1:{port}{container[probe]['httpGet']['path']}"
        with contextlib.suppress(OSError):
            return open_page(url) == status

    wait_for(lambda: answers("readinessProbe", 200), 60, "the pod is ready")
    assert answers("livenessProbe", 200)
    stack.server.stop("immediate")
    wait_for(lambda: answers("readinessProbe", 503), 60, "the pod is not ready")
    assert answers("livenessProbe", 200)
    stack.server.start()
    wait_for(lambda: answers("readinessProbe", 200), 60, "the pod is ready again")
    stack.podman("stop", "--time", "30", "deployment")
    assert stack.podman("inspect", "--format", "{{.State.ExitCode}}", "deployment") == "0\n", stack.logs("deployment")
