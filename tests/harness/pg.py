"""Private PostgreSQL clusters: for the tests, the bench, the demo and `make pg`.

A cluster is a folder of its own that holds data/, the log and the socket; it listens on no port unless
asked to. initdb runs once, into a template below build/; a new cluster is a copy of that (45 ms).
PostgreSQL refuses to run as root, so as root its programs run as user postgres, which also has to reach
the folder; and a socket path is limited to 107 bytes. That is why clusters lie below /tmp, not in the
checkout.

    pg.py start FOLDER [--durable] [--set NAME=VALUE]...   make it unless it is there, and start it
    pg.py stop FOLDER [MODE]                               fast (default), smart or immediate
    pg.py keep                                             `make pg`: prints export lines
    pg.py stop-kept                                        `make pg-stop`
"""

import argparse
import contextlib
import fcntl
import glob
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, "build")
PORT = 5432  # part of the socket's name only
USER = "deferred"

# fsync off spares the disk; a server that is killed loses nothing by it, only a machine would.
# Each database that is copied from another makes a checkpoint, after which WAL goes that a test still reads.
QUICK = {"fsync": "off", "full_page_writes": "off", "wal_keep_size": "64MB"}
COMMON = {
    "unix_socket_permissions": "0700",
    "port": str(PORT),
    "max_connections": "120",
    "max_prepared_transactions": "10",
    "shared_buffers": "64MB",
    "log_line_prefix": "'%m [%p] %a '",
    "log_min_messages": "warning",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
LOCALE = ["--locale=C.UTF-8"]
# `make check-settings`. "settings": a server with settings that an administrator may choose. "pooler": programs reach
# the server by a pooler, see harness.Db.
VARIANT = os.environ.get("DEFERRED_TEST_VARIANT")
if VARIANT == "settings":
    COMMON |= {
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "default_transaction_isolation": "serializable",
        # While one test has a transaction open, the server keeps the predicate locks of tests that have ended.
        "max_pred_locks_per_transaction": "2048",
    }
    LOCALE += ["--locale-provider=icu", "--icu-locale=en"]


class PgError(Exception):
    pass


def sources(kind="queries"):
    """The files of sql/KIND by their names without folder and ".sql"."""
    paths = glob.glob(os.path.join(TOP, "sql", kind, "*", "*.sql"))
    return {os.path.basename(path)[: -len(".sql")]: path for path in paths}


def source(name, kind="queries"):
    """The text of a file of sql/KIND."""
    with open(sources(kind)[name], encoding="utf-8") as f:
        return f.read()


def bindir():
    """Folder of the server's programs: the newest installed, unless PG_BINDIR says another."""
    named = os.environ.get("PG_BINDIR")
    found = [named] if named else sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda d: int(d.split("/")[-2]))
    found = [d for d in found if os.access(os.path.join(d, "initdb"), os.X_OK)]
    if not found:
        initdb = shutil.which("initdb")
        if not initdb:
            raise PgError("no PostgreSQL server programs found; set PG_BINDIR to their folder")
        found = [os.path.dirname(initdb)]
    return found[-1]


def use_server(folder, root):
    """Use another server, with bin, lib and share in the folder. It is copied below root, which its user can reach.
    The host's clients are linked next to it. The folder "-" means the server of the host."""
    os.environ.pop("PG_BINDIR", None)
    if folder == "-":
        return
    place = os.path.join(root, "server")
    copy(folder, place)
    programs = os.path.join(place, "bin")
    for client in glob.glob(os.path.join(bindir(), "*")):
        name = os.path.join(programs, os.path.basename(client))
        if not os.path.exists(name):
            os.symlink(client, name)
    os.environ["PG_BINDIR"] = programs


def can_dump():
    """Whether the clients are as new as the server: pg_dump refuses to dump a newer one."""
    said = [call([os.path.join(bindir(), name), "--version"]) for name in ("pg_dump", "postgres")]
    dump, server = [int(re.search(r"\d+", text)[0]) for text in said]
    return dump >= server


def as_server(args):
    """The command line that runs args as the user who may run a server."""
    if os.geteuid() != 0:
        return args
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"] + args


def call(args, more_env=None, **kw):
    """Run a program of PostgreSQL, free of the caller's PG* variables. Raises with what it said."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PG") and k != "LANGUAGE"} | (more_env or {})
    env["LC_ALL"] = "C.UTF-8"
    # An output that stays open in the server would be waited for: a file is not.
    with tempfile.TemporaryFile("w+") as said:
        done = subprocess.run(
            args, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=env, cwd="/", **kw
        )
        said.seek(0)
        text = said.read()
    if done.returncode != 0:
        raise PgError(f"{shlex.join(args)}: exit status {done.returncode}\n{text}")
    return text


def make_root(prefix):
    """A folder for a run of tests: in memory where there is plenty, for a database a test, made of
    hundreds of files each, is more than a third of all the work on a disk. $DEFERRED_TEST_TMP names another place."""
    place = os.environ.get("DEFERRED_TEST_TMP")
    if not place and os.access("/dev/shm", os.W_OK):
        room = os.statvfs("/dev/shm")
        with open("/proc/meminfo") as f:
            available = int(re.search(r"MemAvailable:\s+(\d+)", f.read()).group(1)) * 1024
        if min(available, room.f_bavail * room.f_frsize) >= 8 << 30:
            place = "/dev/shm"
    root = tempfile.mkdtemp(prefix=prefix, dir=place)
    os.chmod(root, 0o711)
    return root


def give_to_server(path):
    if os.geteuid() == 0:
        who = pwd.getpwnam("postgres")
        os.chown(path, who.pw_uid, who.pw_gid)


def template():
    """Folder with a cluster as initdb leaves it; made at the first call."""
    version = re.search(r"\d+", call([os.path.join(bindir(), "postgres"), "--version"])).group()
    path = os.path.join(BUILD, "pgtemplate-2-" + version + ("-icu" if VARIANT == "settings" else ""))
    os.makedirs(BUILD, exist_ok=True)
    with open(os.path.join(BUILD, "pgtemplate.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(path):
            # The server's user may not reach build/, root can.
            with tempfile.TemporaryDirectory(prefix="deferred-initdb.") as work:
                give_to_server(work)
                data = os.path.join(work, "data")
                call(
                    as_server(
                        [
                            os.path.join(bindir(), "initdb"),
                            "-D",
                            data,
                            "-A",
                            "trust",
                            "-U",
                            USER,
                            "-E",
                            "UTF8",
                            *LOCALE,
                            "--no-sync",
                            "--no-instructions",
                        ]
                    )
                )
                with open(os.path.join(data, "pg_hba.conf"), "r+") as f:
                    rules = f.read()
                    f.seek(0)
                    f.write(
                        "local all +password_people scram-sha-256\n" + rules
                    )  # a role that a test may make: who is in it has to show a password
                copy(data, path + ".new")
            os.rename(path + ".new", path)
    return path


def copy(src, dst):
    subprocess.run(["cp", "-a", src, dst], check=True)


class Cluster:
    """A server in a folder of its own. start() and stop() may be called again and again."""

    def __init__(self, folder, durable=False, settings=None, server_env=None):
        self.server_env = server_env
        self.folder = os.path.abspath(folder)
        self.data = os.path.join(self.folder, "data")
        self.log = os.path.join(self.folder, "log")
        self.durable = durable
        self.settings = settings or {}

    def conninfo(self, dbname="postgres", **more):
        parts = {"host": self.folder, "port": PORT, "user": USER, "dbname": dbname, **more}
        return " ".join(f"{k}={v}" for k, v in parts.items())

    def env(self, dbname="postgres"):
        """Variables by which programs that use libpq find it."""
        return {"PGHOST": self.folder, "PGPORT": str(PORT), "PGUSER": USER, "PGDATABASE": dbname}

    def pid(self):
        """Process of the server, or None when it does not run."""
        try:
            with open(os.path.join(self.data, "postmaster.pid")) as f:
                pid = int(f.readline())
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                return pid if self.data.encode() in f.read().split(b"\0") else None
        except (OSError, ValueError):
            return None

    def create(self):
        """Make the folder and the data unless they are there."""
        if not os.path.isdir(self.folder):
            os.mkdir(self.folder, 0o700)
        give_to_server(self.folder)
        if os.path.exists(os.path.join(self.data, "PG_VERSION")):
            return
        copy(template(), self.data)
        settings = {
            **COMMON,
            **({} if self.durable else QUICK),
            "listen_addresses": "''",
            "unix_socket_directories": f"'{self.folder}'",
            **self.settings,
        }
        with open(os.path.join(self.data, "postgresql.conf"), "a") as f:
            f.write("".join(f"{k} = {v}\n" for k, v in settings.items()))

    def start(self):
        self.create()
        if self.pid():
            return self
        try:
            call(
                as_server(
                    [os.path.join(bindir(), "pg_ctl"), "-D", self.data, "-l", self.log, "-w", "-t", "60", "-s", "start"]
                ),
                self.server_env,
            )
        except PgError as e:
            with contextlib.suppress(OSError), open(self.log) as f:
                raise PgError(f"{e}{''.join(f.readlines()[-20:])}") from None
            raise
        return self

    def stop(self, mode="fast"):
        if not self.pid():
            return
        stop = [os.path.join(bindir(), "pg_ctl"), "-D", self.data, "-m", mode, "-w", "-t", "60", "-s", "stop"]
        try:
            call(as_server(stop))
        except PgError:
            if self.pid():  # else it was about to end, and has ended since
                raise

    def kill(self):
        """SIGKILL to the server itself; its children notice and end. Returns when all are gone."""
        pid = self.pid()
        if not pid:
            return
        children = children_of(pid)
        os.kill(pid, signal.SIGKILL)
        wait_gone([pid] + children)
        # Until somebody has reaped it, the next start would take its number for a running server's.
        for name in (os.path.join(self.data, "postmaster.pid"), os.path.join(self.folder, f".s.PGSQL.{PORT}.lock")):
            with contextlib.suppress(OSError):
                os.unlink(name)

    def standby(self, folder, conninfo=None):
        """A streaming standby of this server, started. It calls itself `second`, for synchronous_standby_names.
        conninfo is another way to this server, which may be cut. pg_basebackup refuses a server newer than itself, so a
        session does its work."""
        os.mkdir(folder, 0o700)
        give_to_server(folder)
        standby = Cluster(folder)
        psql = [os.path.join(bindir(), "psql"), "-XAtq", "-d", self.conninfo()]
        with subprocess.Popen(psql, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
            print("select pg_backup_start('standby', true);", file=session.stdin, flush=True)
            if not session.stdout.readline():
                raise PgError(f"no backup of {self.folder} began")
            copy(self.data, standby.data)
            label, _ = session.communicate("select labelfile from pg_backup_stop(false);\n")
        os.unlink(os.path.join(standby.data, "postmaster.pid"))
        for name, text in ("backup_label", label), ("standby.signal", ""):
            path = os.path.join(standby.data, name)
            with open(path, "w") as f:
                f.write(text)
            give_to_server(path)
        with open(os.path.join(standby.data, "postgresql.conf"), "a") as f:
            f.write(f"unix_socket_directories = '{folder}'\n")
            f.write(f"primary_conninfo = '{conninfo or self.conninfo()} application_name=second'\n")
        return standby.start()

    def promote(self):
        call(as_server([os.path.join(bindir(), "pg_ctl"), "-D", self.data, "-w", "-t", "60", "-s", "promote"]))

    def remove(self):
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def create_db(self, name, template_db=None):
        args = [os.path.join(bindir(), "createdb"), "-h", self.folder, "-p", str(PORT), "-U", USER]
        call(args + (["-T", template_db] if template_db else []) + [name])
        return self.conninfo(name)

    def has_db(self, name):
        return (
            call(
                [
                    os.path.join(bindir(), "psql"),
                    "-XAtq",
                    "-h",
                    self.folder,
                    "-p",
                    str(PORT),
                    "-U",
                    USER,
                    "-d",
                    "postgres",
                    "-c",
                    f"select count(*) from pg_database where datname = '{name}'",
                ]
            ).strip()
            == "1"
        )


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return []


def wait_gone(pids, timeout=20):
    deadline = time.monotonic() + timeout
    while any(running(p) for p in pids):
        if time.monotonic() > deadline:
            raise PgError(f"processes {pids} did not end within {timeout} s")
        time.sleep(0.01)


def cpu_ns(pid):
    """Processor time of all threads of a process so far, by the scheduler's own count."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/task/{task}/schedstat") as f:
            total += int(f.read().split()[0])
    return total


def running(pid):
    """True while the process lives; a zombie has ended."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def migrate(conninfo, build=BUILD):
    """Bring a database up to the newest schema with our own program."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "DEFERRED_"))}
    done = subprocess.run(
        [os.path.join(build, "bin", "deferred"), "migrate", "--db", conninfo],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise PgError(f"deferred migrate: exit status {done.returncode}\n{done.stdout}")


# ---- everything one test session has started


def sweep(root):
    """Stop all that was started for a session whose folder is root, and remove the folder. A process is
    ours if its environment names the folder; we and those above us are not meant."""
    above, pid = set(), os.getpid()
    while pid > 1:
        above.add(pid)
        try:
            with open(f"/proc/{pid}/stat") as f:
                pid = int(f.read().rpartition(")")[2].split()[1])
        except OSError:
            break
    for folder in glob.glob(os.path.join(glob.escape(root), "*/data/postmaster.pid")):
        with contextlib.suppress(PgError):
            Cluster(os.path.dirname(os.path.dirname(folder))).stop("immediate")
    for pid in processes_with("DEFERRED_TEST_ROOT", root) + processes_with("DEFERRED_INSTANCE", root + "/"):
        if pid not in above:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    unmount_below(root)
    shutil.rmtree(root, ignore_errors=True)


def unmount_below(root):
    with open("/proc/self/mounts") as f:
        places = [line.split()[1] for line in f]
    for place in places:
        if place.startswith(root + "/"):
            subprocess.run(["umount", "-l", place], stdin=subprocess.DEVNULL)


def environment_of(pid):
    """As the process was given it; empty when there is no such process. Each test asks this of
    every process there is."""
    try:
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    except OSError:
        return b""
    try:
        parts = [os.read(fd, 1 << 16)]
        while parts[-1]:
            parts.append(os.read(fd, 1 << 16))
        return b"".join(parts)
    except OSError:  # it has ended meanwhile
        return b""
    finally:
        os.close(fd)


def processes_with(name, text):
    """Living processes in whose environment the variable holds the text somewhere."""
    name, text, found = name.encode() + b"=", text.encode(), []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        environ = environment_of(entry)
        if (
            text in environ
            and any(v.startswith(name) and text in v for v in environ.split(b"\0"))
            and running(int(entry))
        ):
            found.append(int(entry))
    return found


# ---- make pg

KEPT = os.path.join(BUILD, "pg")
PLACE = os.path.join(KEPT, "place")  # one line: the folder of the cluster


def reachable(folder):
    return subprocess.run(as_server(["test", "-x", folder]), stderr=subprocess.DEVNULL).returncode == 0


def kept_folder():
    """Where the kept cluster lies: build/pg where the server can use it, else a folder in /tmp."""
    with contextlib.suppress(OSError), open(PLACE) as f:
        folder = f.read().strip()
        if os.path.isdir(folder):
            return folder
    os.makedirs(KEPT, mode=0o755, exist_ok=True)
    folder = os.path.join(KEPT, "server")
    if len(folder) > 80 or not reachable(KEPT):
        folder = tempfile.mkdtemp(prefix="deferred-pg.")
    with open(PLACE, "w") as f:
        f.write(folder + "\n")
    return folder


def keep():
    os.makedirs(KEPT, mode=0o755, exist_ok=True)
    with open(os.path.join(KEPT, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster = Cluster(kept_folder(), durable=True).start()
        if not cluster.has_db("deferred"):
            cluster.create_db("deferred")
            # Else tables made by hand go where the schema is: it is called as the user is.
            call(
                [
                    os.path.join(bindir(), "psql"),
                    "-Xq",
                    "-d",
                    cluster.conninfo("deferred"),
                    "-c",
                    "alter database deferred set search_path = public",
                ]
            )
        migrate(cluster.conninfo("deferred"))
    # Its folder must be ours alone, and pid files are kept.
    os.makedirs(os.path.join(KEPT, "run"), mode=0o700, exist_ok=True)
    lines = {
        **cluster.env("deferred"),
        "DEFERRED_DB": cluster.conninfo("deferred"),
        "DEFERRED_PIDFILE": os.path.join(KEPT, "run", "defer_deferred"),
        "DEFERRED_PLUGIN_DIR": os.path.join(BUILD, "plugins"),
        "DEFERRED_HTTP_KEY_FILE": os.path.join(KEPT, "http.key"),
    }
    if os.geteuid() == 0:
        lines["DEFERRED_ALLOW_ROOT"] = "1"  # what is tried by hand is the jobs of whoever tries it
    for name, value in lines.items():
        print(f"export {name}={shlex.quote(value)}")
    print(f"server: pid {cluster.pid()}, log {cluster.log}; stop it with `make pg-stop`", file=sys.stderr)


def stop_kept():
    with contextlib.suppress(OSError), open(PLACE) as f:
        Cluster(f.read().strip()).remove()
        os.unlink(PLACE)


def main():
    parser = argparse.ArgumentParser(description="private PostgreSQL clusters")
    sub = parser.add_subparsers(dest="command", required=True)
    start = sub.add_parser("start")
    start.add_argument("folder")
    start.add_argument("--durable", action="store_true")
    start.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    stop = sub.add_parser("stop")
    stop.add_argument("folder")
    stop.add_argument("mode", nargs="?", default="fast")
    for name in ("keep", "stop-kept"):
        sub.add_parser(name)
    args = parser.parse_args()
    try:
        if args.command == "start":
            Cluster(args.folder, args.durable, dict(s.split("=", 1) for s in args.set)).start()
        elif args.command == "stop":
            Cluster(args.folder).stop(args.mode)
        elif args.command == "keep":
            keep()
        else:
            stop_kept()
    except PgError as e:
        sys.exit(f"pg.py: {e}")


if __name__ == "__main__":
    main()
