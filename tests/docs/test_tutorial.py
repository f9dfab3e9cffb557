"""Types the tutorial as it stands, from the installation to the page, then the page that uninstalls all of it.

The machine is this one with an /etc, /run, /usr/local and /var of its own, and a network and processes of its own. Two
things differ: packages are installed before, and what cron would run in two minutes runs at once.
"""

import os
import shutil
import subprocess
import tempfile

import pytest

import harness
import pg
from test_pages import Reader, blocks

pytestmark = pytest.mark.skipif(
    harness.SAN or os.geteuid() != 0, reason="root alone can make such a machine; sanitizers do not fit into it"
)

SETUP = """
for folder in etc run usr/local var; do mount --bind "$0/$folder" "/$folder"; done
if id deferred; then userdel deferred; fi
/usr/bin/python3 -c '
import fcntl, socket, struct
SIOCSIFFLAGS, UP = 0x8914, 1
fcntl.ioctl(socket.socket(), SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", UP))'
echo ready
exec sleep infinity
"""
# What a package of PostgreSQL does, and what cron does.
FUNCTIONS = f"""
make() {{ case "$*" in install) command make -s -C {pg.TOP} install >/dev/null ;; esac; }}
apt-get() {{ case "$*" in *" postgresql "*) pg_createcluster "$CLUSTER_VERSION" main ;; esac; }}
service() {{ case "$*" in postgresql*) command service "$@" ;; esac; }}
sleep() {{ bash -e -c "$(sed -E 's/^(\\S+ +){{5}}root +//' /etc/cron.d/deferred)"; }}
"""


class Machine(Reader):
    """A person with a root shell who follows pages on a machine of Debian. It ends with its first process."""

    def __init__(self, folder):
        self.root, self.names, self.said = folder, [("/tmp/mails.txt", "/var/mails.txt")], {}
        os.makedirs(f"{folder}/usr/local")
        os.makedirs(f"{folder}/run/lock")
        for name in ("home", "lib", "log", "spool", "cache/ldconfig"):
            os.makedirs(f"{folder}/var/{name}")
        os.symlink("/run", f"{folder}/var/run")
        subprocess.run(["cp", "-a", "/etc", f"{folder}/etc"], check=True)
        for name in ("deferred", "postgresql"):
            shutil.rmtree(f"{folder}/etc/{name}", ignore_errors=True)
        os.makedirs(f"{folder}/etc/postgresql")
        for name in ("lib", "log"):
            os.makedirs(f"{folder}/var/{name}/postgresql")
            shutil.chown(f"{folder}/var/{name}/postgresql", "postgres", "postgres")
        apart = ["unshare", "--mount", "--propagation", "private", "--net", "--ipc", "--pid", "--fork", "--kill-child"]
        self.holder = harness.Started([*apart, "--mount-proc", "sh", "-e", "-c", SETUP, folder])
        harness.wait_for(lambda: "ready" in self.holder.output() or not self.holder.alive(), 30, "the machine is there")
        assert self.holder.alive(), self.holder.output()
        (self.first,) = pg.children_of(self.holder.pid)

    def write(self, name, text, how):
        path = os.path.join(self.root, "var/home", name) if name[0] != "/" else self.root + name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, how, encoding="utf-8") as f:
            f.write(text)

    def shell(self, command):
        """What it prints, and its exit status. A program that it leaves behind keeps the file of its output."""
        enter = ["nsenter", "--target", str(self.first), "--mount", "--net", "--ipc", "--pid", "--"]
        script = f"cd /var/home\n{FUNCTIONS}{self.named(command)}\n"
        if "aiosmtpd -n" in command:
            script += "until (echo >/dev/tcp/127.0.0.1/2525) 2>/dev/null; do command sleep 0.1; done\n"
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/var/home"}
        env |= {"LC_ALL": "C.UTF-8", "DEFERRED_CGROUP": "0", "DEFERRED_TEST_ROOT": harness.root()}
        env["CLUSTER_VERSION"] = max(os.listdir("/usr/lib/postgresql"), key=int)
        with tempfile.TemporaryFile("w+", dir=self.root) as said:
            done = subprocess.run(
                [*enter, "bash", "-e", "-o", "pipefail", "-c", script],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=300,
            )
            said.seek(0)
            self.said[command.strip()] = said.read()
        return self.said[command.strip()], done.returncode

    def close(self):
        self.shell("service postgresql stop")  # or its shared memory would stay
        self.holder.kill()


@pytest.fixture
def machine():
    folder = tempfile.mkdtemp(prefix="machine-", dir=harness.root())
    os.chmod(folder, 0o755)
    m = Machine(folder)
    yield m
    m.close()


@pytest.mark.slow
def test_the_tutorial_is_typed_from_the_first_line_to_the_last(machine):
    assert [mark for mark, *_ in blocks("docs/tutorial.md") if mark not in ("", "file", "append")] == []
    machine.follow("docs/tutorial.md")
    (said,) = (text for command, text in machine.said.items() if "http_code" in command)
    assert said.endswith("\n200\n"), said
    mails, _ = machine.shell("cat /tmp/mails.txt")
    for customer, item in ("ann@example.org", "teapot"), ("bob@example.org", "cup"):
        assert f"To: {customer}" in mails and f"We are packing your {item}." in mails, mails
    assert "KeyError: 'spoon'" in machine.said["deferred why 3"]
    assert [line for line in machine.said["deferred doctor"].splitlines() if not line.startswith("ok ")] == []
    # The page about its end.
    as_postgres = r"su postgres <<'POSTGRES'\n\1\nPOSTGRES"
    machine.names += [("psql app", "psql shop"), (r"(?s)\A(.*\bdrop (?:schema|role)\b.*)\Z", as_postgres)]
    machine.follow("docs/how-to/uninstall.md")
    left, code = machine.shell("psql postgres -XAtc \"select rolname from pg_roles where rolname ~ '^deferred_'\"")
    assert (left, code) == ("", 0)
