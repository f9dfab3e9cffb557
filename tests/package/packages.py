"""The Debian packages (cron/debian), made by `make deb`: built, installed, used, upgraded, removed and purged.

`make check-packages` runs this, as root. It takes minutes and is not part of `make check`. SUITES names the releases of
Debian. For each, mmdebstrap makes one system that builds the packages, and one that has only what they depend on. Both
are kept below build/packages as archives. No test changes this machine.
"""

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import psycopg2
import pytest

import harness
import pg
from documents import dead_links, fenced, read

sys.path.append(os.path.join(pg.TOP, "tests/upgrade"))
import releases  # noqa: E402

SUITES = os.environ.get("SUITES", "bookworm trixie").split()
RELEASES = {"bookworm": 12, "trixie": 13}
LANGUAGES = ["python", "perl", "node", "php"]
PROGRAMS = ["python3-deferred-program", "libdeferred-program-perl", "node-deferred-program", "php-deferred-program"]
NAMES = ["libdeferred1", "libdeferred-dev", "deferred", "deferred-http", *PROGRAMS]
WORK = os.path.join(pg.TOP, "build/packages")
# What installing and removing any package leaves: the books of dpkg and apt, logs, accounts, the cache of ldconfig.
BOOKS = re.compile(
    r"\./(var/lib/(apt|dpkg)|var/cache/(apt|debconf|ldconfig|man)|var/log/(dpkg\.log|alternatives\.log|apt)"
    r"|etc/ld\.so\.cache|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?|run/(lock|adduser)|proc|sys|dev)(/|$)"
)


def call(args, env=None, **kw):
    done = subprocess.run(
        args,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(env or {})},
        **kw,
    )
    assert done.returncode == 0, f"{args}: {done.returncode}\n{done.stdout[-6000:]}"
    return done.stdout


def make(*args, **env):
    return call(["make", "-s", "--no-print-directory", *args], {"MAKEFLAGS": "", **env}, cwd=pg.TOP)


# ---- systems


class System:
    """A Debian with the named packages. `share` is a folder of this machine, and where it is seen inside."""

    def __init__(self, suite, packages, share):
        kept = os.path.join(WORK, f"{suite}-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:12]}.tar")
        os.makedirs(WORK, exist_ok=True)
        if not os.path.exists(kept):
            included = "--include=" + ",".join(packages)
            call(["mmdebstrap", "--quiet", "--variant=apt", included, suite, kept + ".new.tar"])
            os.rename(kept + ".new.tar", kept)
        self.suite, self.share, self.removed = suite, share, False
        self.root = tempfile.mkdtemp(prefix=suite + "-", dir=WORK)
        os.chmod(self.root, 0o755)
        call(["tar", "-C", self.root, "-xf", kept, "--exclude=./dev/*"])
        os.makedirs(self.path(share[1]))

    def remove(self):
        self.removed = True
        for path in glob.glob("/proc/[0-9]*/root"):
            with contextlib.suppress(OSError):
                if os.readlink(path).startswith(self.root):
                    os.kill(int(path.split("/")[2]), signal.SIGKILL)
        shutil.rmtree(self.root)

    def enter(self, *args, env=None):
        """The arguments of subprocess for a program inside."""
        script = (
            'mount --bind "$1" "$0$2" && mount --bind /proc "$0/proc" && mount --rbind /dev "$0/dev" && root=$0 && '
            'shift 2 && exec chroot "$root" "$@"'
        )
        return {
            "args": ["unshare", "--mount", "--propagation=private", "sh", "-c", script, self.root, *self.share, *args],
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "text": True,
            "env": {
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": "/root",
                "LC_ALL": "C.UTF-8",
                "DEBIAN_FRONTEND": "noninteractive",
                **(env or {}),
            },
        }

    def run(self, *args, env=None, ok=True, timeout=120):
        """Run a program inside. Returns what it said on both outputs."""
        done = subprocess.run(timeout=timeout, **self.enter(*args, env=env))
        assert not ok or done.returncode == 0, f"{args}: {done.returncode}\n{done.stdout[-6000:]}"
        return done.stdout

    def path(self, name):
        return os.path.join(self.root, name.lstrip("/"))

    def read(self, name):
        with open(self.path(name)) as f:
            return f.read()

    def write(self, name, text, mode=0o644):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as f:
            f.write(text)
        os.chmod(self.path(name), mode)

    def edit(self, name, pattern, text):
        changed, n = re.subn(pattern, text, self.read(name))
        assert n == 1, (name, pattern)
        self.write(name, changed)

    def files(self):
        """All of it, with mode and owner, but for the books."""
        listed = call(["find", ".", "-printf", "%p %M %u %g\n"], cwd=self.root).splitlines()
        return {line for line in listed if not BOOKS.match(line.split(" ")[0])}


@pytest.fixture(scope="module", params=SUITES)
def builder(request):
    packages = make("--eval", "say: ; @echo $(DEPS_DEB)", "say").split()
    system = System(request.param, [*packages, "lintian"], (pg.BUILD, "/srv/build"))
    yield system
    system.remove()


def build(builder, folder, umask="022", **env):
    """Packages of the source in a folder of the builder, by name."""
    env = {"DEB_BUILD_OPTIONS": "parallel=2", **env}
    builder.run("sh", "-c", f"umask {umask} && cd {folder} && exec make -s deb", env=env, timeout=3000)
    return packages_in(builder.path(f"{folder}/build/deb"))


def own_version():
    return make("--eval", "say: ; @echo $(VERSION)", "say").strip()


def unpack(builder, folder):
    """The source tarball of this tree."""
    os.makedirs(builder.path(folder))
    tarball = make("dist", f"DIST_PLACE={builder.path(folder)}.dist").split()[-1]
    call(["tar", "-C", builder.path(folder), "--strip-components=1", "-xf", tarball])
    return folder


def unpack_release(builder, folder):
    """The source of the last release of another version. The list of releases gives its version."""
    release = [release for release in releases.releases() if release.version != own_version()][-1]
    version = release.version.replace("-", "~")
    releases.unpack(release, builder.path(folder))
    builder.edit(f"{folder}/Makefile", r"(?m)^VERSION := .*", f"VERSION := {version}")
    builder.edit(f"{folder}/lib/include/deferred.h", r'(DEFERRED_VERSION) ".*"', rf'\1 "{version}"')
    builder.edit(f"{folder}/cron/debian/changelog", r"\A(deferred) \(.*?\)", rf"\1 ({version}-1)")
    return folder


def packages_in(folder):
    return {os.path.basename(path).split("_")[0]: path for path in glob.glob(f"{folder}/*.deb")}


@pytest.fixture(scope="module")
def packages(builder):
    return build(builder, unpack(builder, "/srv/deferred"))


def field(package, name):
    return call(["dpkg-deb", "-f", package, name]).strip()


def digests(packages):
    found = {}
    for name, path in packages.items():
        with open(path, "rb") as f:
            found[name] = hashlib.sha256(f.read()).hexdigest()
    return found


def test_lintian_finds_nothing(builder, packages):
    assert set(NAMES) <= set(packages)
    command = "lintian --allow-root --fail-on none --tag-display-limit 0 /srv/deferred/build/deb/*.changes"
    said = builder.run("sh", "-c", command, timeout=1200)
    print(said)
    # A package that is not uploaded to Debian closes no bug there.
    assert set(re.findall(r"(?m)^[EW]: \S+ (\S+)", said.replace(" source", ""))) <= {"initial-upload-closes-no-bugs"}


def test_programs_and_libraries_are_hardened(packages, tmp_path):
    for name in NAMES:
        call(["dpkg-deb", "-x", packages[name], tmp_path])
    for path in [
        *glob.glob(f"{tmp_path}/usr/bin/*"),
        *glob.glob(f"{tmp_path}/usr/libexec/deferred/*"),
        *glob.glob(f"{tmp_path}/usr/lib/*/*.so.*"),
        *glob.glob(f"{tmp_path}/usr/lib/*/deferred/plugins/*"),
    ]:
        said = call(["readelf", "-hdlW", path])
        assert (
            re.search(r"Type: +DYN", said) and "GNU_RELRO" in said and re.search(r"FLAGS.*\bNOW\b|BIND_NOW", said)
        ), path
        assert not re.search(r"GNU_STACK.*RWE", said) and "RPATH" not in said and "RUNPATH" not in said, path
    library = glob.glob(f"{tmp_path}/usr/lib/*/libdeferred.so.1")
    assert "Library soname: [libdeferred.so.1]" in call(["readelf", "-d", *library])


def test_links_of_packaged_documents_lead_to_files(packages, tmp_path):
    """The examples of deferred_http are in its package, and no page links to them."""
    call(["dpkg-deb", "-x", packages["deferred"], tmp_path])
    folder = tmp_path / "usr/share/doc/deferred"
    assert (folder / "docs/how-to/containers.md").exists() and dead_links(folder) == []


def test_a_second_build_elsewhere_gives_the_same_packages(builder, packages):
    habits = {"DEB_BUILD_OPTIONS": "nocheck", "TZ": "Asia/Kathmandu", "LC_ALL": "C"}
    assert digests(build(builder, unpack(builder, "/root/again"), umask="077", **habits)) == digests(packages)


# ---- the packages in use


class Debian(System):
    SOCKET = "/srv/postgresql"

    def __init__(self, suite, packages, cluster, name):
        depends = {"cron", "curl", "logrotate", "init-system-helpers"}
        for package in NAMES:
            for one in field(packages[package], "Depends").split(","):
                depends.add(re.match(r"\s*([^\s|(:]+)", one)[1])
        cluster.create_db(name)
        self.db = harness.Db(cluster, name)
        self.environment = {"DEFERRED_DB": cluster.conninfo(name, host=self.SOCKET)}
        super().__init__(suite, sorted(depends - set(NAMES)), (cluster.folder, self.SOCKET))

    def remove(self):
        self.db.close()
        super().remove()

    def deferred(self, *args):
        return self.run(*args, env=self.environment)

    def add_functions(self):
        """A function, and a program with a function in each language. Returns the new config file."""
        commands = {
            "python": '"/usr/bin/python3", "-m", "deferred", "tasks"',
            "perl": '"/usr/bin/perl", "tasks.pl"',
            "node": '"/usr/bin/node", "tasks.mjs"',
            "php": '"/usr/bin/php", "tasks.php"',
        }
        tasks = {
            "py": "import os, deferred\n\n@deferred.function('in_python')\n"
            "def task(params, job):\n    return str(os.getuid())\n",
            "pl": "use Deferred::Program;\nfunction in_perl => sub { \"$<\" };\nDeferred::Program->run;\n",
            "mjs": "import { define, run } from '/usr/share/nodejs/deferred-program/index.js';\n"
            "define('in_node', {}, () => String(process.getuid()));\nrun();\n",
            "php": "<?php\nrequire 'Deferred/autoload.php';\nuse Deferred\\Program;\n"
            "Program::define('in_php', fn() => (string) posix_getuid());\nProgram::run();\n",
        }
        for suffix, text in tasks.items():
            self.write(f"/srv/tasks/tasks.{suffix}", text)
        conf = self.read("/etc/deferred/deferred.conf")
        conf += '\nfunction "whoami" { command = {"/usr/bin/id", "-un"} }\n'
        conf += 'function "nap" { command = {"/bin/sleep", "0.2"} }\n'
        for language in LANGUAGES:
            conf += f'program "{language}" {{ command = {{{commands[language]}}} directory = "/srv/tasks" }}\n'
        self.write("/etc/deferred/deferred.conf", conf)
        return conf


@pytest.fixture(scope="module")
def debian(builder, packages, cluster):
    system = Debian(builder.suite, packages, cluster, f"packages_{builder.suite}")
    yield system
    system.remove()


def install(debian, packages, *options):
    for name in NAMES:
        call(["cp", packages[name], debian.path("/root")])
    return debian.run("dpkg", *options, "--install", *[f"/root/{os.path.basename(packages[n])}" for n in NAMES])


def next_version(packages, place):
    """The same packages as their next version, in which the config file that comes with them has another line."""
    made = {}
    for name in NAMES:
        tree = os.path.join(place, name)
        call(["dpkg-deb", "-R", packages[name], tree])
        control = os.path.join(tree, "DEBIAN/control")
        with open(control) as f:
            text = f.read()
        with open(control, "w") as f:
            f.write(re.sub(rf"{re.escape(own_version())}-1~deb\d+u1", f"{own_version()}-2", text))
        if name == "deferred":
            with open(os.path.join(tree, "etc/deferred/deferred.conf"), "a") as f:
                f.write("# of the next version\n")
        made[name] = os.path.join(place, f"{name}_{own_version()}-2.deb")
        call(["dpkg-deb", "--root-owner-group", "-b", tree, made[name]])
    return made


def run_a_job(debian, label, fn="whoami"):
    """Defer, run as cron's line would, and look."""
    job = debian.deferred("deferred", "add", fn, "--label", label).strip()
    debian.deferred("check_deferred")
    return json.loads(debian.deferred("deferred", "--json", "show", job))


def test_installed_used_upgraded_removed_and_purged(debian, packages, tmp_path):
    before = debian.files()
    install(debian, packages)

    # Installed: nothing runs, the user is there and owns nothing but its home.
    assert debian.run("deferred", "--version").strip() == f"deferred {own_version()}"
    assert debian.run("check_deferred", "--version").startswith(f"check_deferred {own_version()}, schema ")
    assert debian.run("deferred_http", "--version").startswith(f"deferred_http {own_version()}")
    conffiles = set(re.findall(r"(?m)^ (/\S+)", debian.run("dpkg-query", "-W", "-f", "${Conffiles}\n", *NAMES)))
    assert conffiles == {
        "/etc/deferred/deferred.conf",
        "/etc/cron.d/deferred",
        "/etc/logrotate.d/deferred",
        "/etc/logrotate.d/deferred-http",
    }
    lines = [line for line in debian.read("/etc/cron.d/deferred").splitlines() if line and not line.startswith("#")]
    assert lines == ["MAILTO=root"]
    command = "[ -x /usr/bin/check_deferred ] && /usr/bin/check_deferred 2>>/var/log/deferred.log"
    assert f"#*/2 * * * *   root   {command}\n" in debian.read("/etc/cron.d/deferred")
    units = [line.split(" ")[0] for line in debian.files() if re.match(r"\./usr/lib/systemd/system/.*deferred", line)]
    assert len(units) == 7 and not [line for line in debian.files() if re.match(r"\./etc/systemd/.*deferred", line)]
    assert all("/usr/local" not in debian.read(unit) and "Copy" not in debian.read(unit) for unit in units)
    for user, home, owned in ("deferred", "/var/lib/deferred", "/var/lib/deferred\n"), (
        "deferred_front",
        "/nonexistent",
        "",
    ):
        assert re.fullmatch(rf"{user}:x:\d+:\d+:[^:]*:{home}:/usr/sbin/nologin\n", debian.run("getent", "passwd", user))
        assert (
            debian.run("find", "/", "-xdev", "-path", debian.SOCKET, "-prune", "-o", "-user", user, "-print") == owned
        )
    assert "libdeferred.so.1 " in debian.run("/sbin/ldconfig", "-p")
    debian.run("logrotate", "-d", "/etc/logrotate.d/deferred", "/etc/logrotate.d/deferred-http")

    # Used: functions run as the user of the package.
    conf = debian.add_functions()
    cron = debian.read("/etc/cron.d/deferred").replace(
        f"#*/2 * * * *   root   {command}", f"*/2 * * * *   root   {command}"
    )
    debian.write("/etc/cron.d/deferred", cron)
    assert "functions and views" in debian.deferred("deferred", "migrate")
    job = run_a_job(debian, "first")
    assert (job["state"], job["attempts"][0]["result"]) == ("done", "deferred"), job
    user = debian.run("id", "-u", "deferred").strip()
    for language in LANGUAGES:
        job = run_a_job(debian, language, f"in_{language}")
        assert (job["state"], job["attempts"][0]["result"]) == ("done", user), job
    debian.run("python3", "-c", "import deferred.testing")  # root's interpreter stores the bytecode of modules
    said = debian.run("deferred", "run", "send_mail", '{"to": "ann@example.org", "text": "t"}', ok=False)
    assert said.startswith("deferred: send_mail failed: the sender is missing"), said

    # Upgraded: what the administrator has changed is as it was, and works.
    said = install(debian, next_version(packages, str(tmp_path)), "--force-confdef", "--force-confold")
    assert debian.run(
        "dpkg-query", "-W", "-f", "${Version} ${Status}\n", *NAMES
    ) == f"{own_version()}-2 install ok installed\n" * len(NAMES), said
    assert debian.read("/etc/deferred/deferred.conf") == conf and debian.read("/etc/cron.d/deferred") == cron
    assert debian.read("/etc/deferred/deferred.conf.dpkg-dist").endswith("# of the next version\n")
    assert run_a_job(debian, "second")["state"] == "done"

    # Removed: settings stay, programs go.
    for name in (
        "/var/log/deferred.log",
        "/var/log/deferred.log.1",
        "/var/log/deferred.log.2.gz",
        "/etc/deferred/http.key",
    ):
        debian.write(name, "")
    os.makedirs(debian.path("/var/log/deferred"))
    debian.write("/var/log/deferred/access.log", "")
    debian.run("dpkg", "--remove", *NAMES)
    assert debian.read("/etc/deferred/deferred.conf") == conf and not os.path.exists(debian.path("/usr/bin/deferred"))
    assert os.path.exists(debian.path("/var/log/deferred.log"))
    # Cron's line is still there, and says nothing.
    assert debian.read("/etc/cron.d/deferred") == cron
    assert debian.run("sh", "-c", command, ok=False) == "" and debian.read("/var/log/deferred.log") == ""

    # Purged: what is left is the key, without which accounts in the database are worth nothing.
    debian.run("dpkg", "--purge", *NAMES)
    call(["sh", "-c", f"rm -rf {debian.path('/root')}/*.deb {debian.path('/srv/tasks')}"])
    left = {line.split(" ")[0] for line in debian.files() - before}
    assert left == {"./etc/deferred", "./etc/deferred/http.key"} and before <= debian.files()


def test_installing_what_the_tests_need_stops_no_other_service_and_leaves_no_setting(debian):
    """nginx alone is kept from being started. PostgreSQL makes its cluster as its package does."""
    settings = {line.split(" ")[0] for line in debian.files() if line.startswith("./etc/")}
    with open(os.path.join(pg.TOP, "tests/harness/deps.sh")) as f:
        debian.write("/root/deps.sh", f.read())
    for name, text in (
        ("dpkg-query", ""),
        ("systemctl", ""),
        (
            "apt-get",
            """
        for service in nginx postgresql cron; do
            /usr/sbin/policy-rc.d $service start && echo $service is started
        done
        echo apt-get "$@" """,
        ),
    ):
        debian.write(f"/usr/local/bin/{name}", "#!/bin/sh\n" + text)
        os.chmod(debian.path(f"/usr/local/bin/{name}"), 0o755)
    path = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    said = debian.run("sh", "/root/deps.sh", "nginx", "postgresql", "cron", env=path)
    assert "nginx is started" not in said and "postgresql is started\ncron is started\n" in said
    assert said.endswith(" --no-install-recommends nginx postgresql cron\n"), said
    assert {line.split(" ")[0] for line in debian.files() if line.startswith("./etc/")} == settings
    assert not os.path.exists(debian.path("/usr/sbin/policy-rc.d"))


# ---- the repository


class Repository:
    """What `make repo` makes, signed with a key of its own, and seen by a Debian at /srv/repo."""

    SOURCE, KEY = "/etc/apt/sources.list.d/deferred.list", "/usr/share/keyrings/deferred.gpg"

    def __init__(self, debian):
        self.debian = debian
        self.home = tempfile.mkdtemp(prefix="gnupg-")
        self.place = debian.path("/srv/repo")
        self.env = {"GNUPGHOME": self.home}
        for who in "ours", "other":
            key = ["--batch", "--quiet", "--passphrase", "", "--quick-generate-key", f"{who}@example.org", "ed25519"]
            call(["gpg", *key], self.env)
        for path in glob.glob(debian.path("/etc/apt/sources.list*")):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        debian.write(self.SOURCE, f"deb [signed-by={self.KEY}] file:/srv/repo {debian.suite} main\n")

    def remove(self):
        call(["gpgconf", "--kill", "all"], self.env)
        harness.wait_for(lambda: not glob.glob(f"{self.home}/S.*"), 60, "the agent of gpg has removed its sockets")
        shutil.rmtree(self.home)

    def add(self, packages, key="ours@example.org"):
        folder = os.path.dirname(packages["deferred"])
        make(
            "repo",
            f"DEB_PLACE={folder}",
            f"REPO_PLACE={self.place}",
            f"SUITE={self.debian.suite}",
            f"SIGN_KEY={key}",
            **self.env,
        )

    def trust(self):
        self.debian.write(self.KEY, "")
        shutil.copy(os.path.join(self.place, "deferred.gpg"), self.debian.path(self.KEY))

    def update(self):
        return self.debian.run("apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update", ok=False)

    @contextlib.contextmanager
    def damaged(self, pattern):
        """Inverts one bit in the middle of a file, for a while."""
        [path] = glob.glob(os.path.join(self.place, pattern))
        with open(path, "r+b") as f:
            place = os.path.getsize(path) // 2

            def invert():
                f.seek(place)
                byte = f.read(1)[0]
                f.seek(place)
                f.write(bytes([byte ^ 1]))
                f.flush()

            invert()
            yield
            invert()


@pytest.fixture
def fresh(builder, packages, cluster):
    """A Debian without our packages."""
    system = Debian(builder.suite, packages, cluster, f"fresh_{builder.suite}_{os.urandom(4).hex()}")
    yield system
    system.remove()


@pytest.fixture
def repository(fresh):
    made = Repository(fresh)
    yield made
    made.remove()


def apt(debian, *args, ok=True):
    return debian.run("apt-get", "-q", "-y", "--no-install-recommends", *args, ok=ok)


def test_apt_installs_from_the_repository_and_refuses_what_is_not_signed(fresh, repository, packages):
    repository.add(packages)
    assert "NO_PUBKEY" in repository.update() or "E:" in repository.update()
    repository.trust()
    lists = fresh.run("apt-get", "-q", "update")
    assert "W:" not in lists and "E:" not in lists, lists

    for pattern in "dists/*/InRelease", "dists/*/main/*/Packages":
        with repository.damaged(pattern):
            shutil.rmtree(fresh.path("/var/lib/apt/lists"))
            said = repository.update()
            assert "E:" in said, (pattern, said)
    fresh.run("apt-get", "-q", "update")
    with repository.damaged("pool/*/deferred_*.deb"):
        said = apt(fresh, "install", *NAMES, ok=False)
        assert re.search("E: .*(Hash Sum mismatch|hashes? of expected file)|Hash Sum mismatch", said), said
    assert not os.path.exists(fresh.path("/usr/bin/deferred"))

    apt(fresh, "install", *NAMES)
    assert fresh.run("deferred", "--version") == f"deferred {own_version()}\n"

    # The key of another, with which nobody has told apt to trust this repository.
    repository.add(packages, "other@example.org")
    assert "E:" in repository.update()


def test_the_page_about_the_repository_installs_and_upgrades(fresh, repository, packages, tmp_path):
    """apt needs no network for curl, which is there."""
    setup, install, upgrade = fenced(read("docs", "how-to", "install-from-apt.md"))
    setup = setup.replace("https://deb.example.org/", "file:///srv/repo/").replace(
        "https://deb.example.org", "file:/srv/repo"
    )
    os.remove(fresh.path(repository.SOURCE))
    repository.add(packages)
    for text in setup, install:
        fresh.run("sh", "-ec", text, timeout=600)
    assert fresh.run("deferred", "--version") == f"deferred {own_version()}\n"
    conf = fresh.add_functions()
    newer = next_version(packages, str(tmp_path))
    repository.add(newer)
    fresh.run("sh", "-ec", upgrade, timeout=600)
    shown = fresh.run("dpkg-query", "-W", "-f", "${Version} ${Status}", "deferred")
    assert shown == f"{own_version()}-2 install ok installed" and fresh.read("/etc/deferred/deferred.conf") == conf


# ---- an upgrade beneath a running service

# deb-systemd-invoke asks for this. It knows the one unit that the test runs.
SYSTEMCTL = """#!/bin/sh
echo "$*" >> /run/systemctl
case " $* " in
*" try-restart "*" check_deferred.service "*) what=restart ;;
*" stop "*" check_deferred.service "*) what=stop ;;
*) exit 0 ;;
esac
echo $what > /run/asked
kill -TERM $(cat /run/deferred/check_deferred)
"""


class Service(threading.Thread):
    """Runs the command of check_deferred.service as systemd does: again if it fails, and if a restart was asked for."""

    def __init__(self, debian):
        super().__init__(daemon=True)
        self.debian, self.codes, self.output = debian, [], ""
        os.makedirs(debian.path("/run/deferred"), mode=0o700, exist_ok=True)
        unit = debian.read("/usr/lib/systemd/system/check_deferred.service")
        self.command = re.search(r"(?m)^ExecStart=(.*)", unit)[1].split()
        self.final = {0, *map(int, re.search(r"(?m)^RestartPreventExitStatus=(.*)", unit)[1].split())}
        self.start()

    def run(self):
        while True:
            asked = self.debian.path("/run/asked")
            done = subprocess.run(**self.debian.enter(*self.command, env=self.debian.environment))
            self.codes.append(done.returncode)
            self.output += done.stdout
            again = done.returncode not in self.final
            if os.path.exists(asked):
                with open(asked) as f:
                    again = f.read() == "restart\n"
                os.remove(asked)
            if not again or self.debian.removed:
                return

    def workers(self):
        """Version and pid of the workers that live."""
        return self.debian.db.sql("select version, pid from deferred.__deferred_worker where ended_at is null")

    def wait_for_version(self, version):
        return harness.wait_for(
            lambda: [pid for v, pid in self.workers() if v == version], 60, f"a worker of {version}"
        )


class Feed(threading.Thread):
    """An application that defers a job every few milliseconds."""

    def __init__(self, db):
        super().__init__(daemon=True)
        self.connection, self.enough, self.jobs, self.error = db.connect(), threading.Event(), [], None
        self.connection.autocommit = True
        self.start()

    def run(self):
        try:
            with self.connection.cursor() as cursor:
                while not self.enough.wait(0.02):
                    fn = ["whoami", "nap", *(f"in_{language}" for language in LANGUAGES)][len(self.jobs) % 6]
                    cursor.execute("select deferred.defer(%s)", [fn])
                    self.jobs.append(cursor.fetchone()[0])
        except psycopg2.Error as error:
            self.error = error

    def stop(self):
        self.enough.set()
        self.join()
        self.connection.close()
        assert self.error is None, f"an upgrade made deferring fail: {self.error}"


def test_an_upgrade_beneath_a_running_service_loses_no_job(builder, fresh, repository, packages):
    before = build(builder, unpack_release(builder, "/srv/before"), DEB_BUILD_OPTIONS="nocheck parallel=2")
    old, new = field(before["deferred"], "Version").rpartition("-")[0], own_version()
    assert field(packages["deferred"], "Version") == f"{new}-1~deb{RELEASES[fresh.suite]}u1"
    repository.add(before)
    repository.trust()
    fresh.run("apt-get", "-q", "update")
    os.makedirs(fresh.path("/run/systemd/system"), exist_ok=True)
    fresh.write("/usr/bin/systemctl", SYSTEMCTL, 0o755)
    clean = fresh.files()
    apt(fresh, "install", *NAMES)
    assert fresh.run("deferred", "--version") == f"deferred {old}\n"
    fresh.add_functions()
    fresh.deferred("deferred", "migrate")
    service = Service(fresh)
    [pid] = service.wait_for_version(old)
    feed = Feed(fresh.db)

    def done():
        return fresh.db.one("select count(*) from deferred.job where state = 'done'")

    # The new files are there, and nothing has been restarted: the old worker goes on.
    harness.wait_for(lambda: done() > 20, 60)
    for name in NAMES:
        call(["cp", packages[name], fresh.path("/root")])
    files = [f"/root/{os.path.basename(packages[name])}" for name in NAMES]
    fresh.run("dpkg", "--unpack", *files)
    assert fresh.run("deferred", "--version") == f"deferred {new}\n"
    already = done()
    harness.wait_for(lambda: done() > already + 20, 60)
    assert service.workers() == [(old, pid)] and not os.path.exists(fresh.path("/run/asked"))

    # The maintainer scripts restart it.
    os.remove(fresh.path("/run/systemctl"))
    fresh.run("dpkg", "--configure", "--pending", "--force-confold")
    calls = fresh.read("/run/systemctl")
    assert " start " not in calls and "daemon-reload" in calls, calls
    assert (
        re.search(r"(?m)^try-restart .*check_deferred\.service", calls) and "check_deferred@*.service" in calls
    ), calls

    # The new service ends if it meets the old schema before the administrator migrates it.
    fresh.deferred("deferred", "migrate")
    harness.wait_for(lambda: not service.is_alive() or new in dict(service.workers()), 60)
    if not service.is_alive():
        assert service.codes[-1] == 78, service.output
        service = Service(fresh)
    service.wait_for_version(new)
    already = done()
    harness.wait_for(lambda: done() > already + 20, 60)
    feed.stop()
    harness.wait_for(
        lambda: fresh.db.one("select count(*) from deferred.__deferred_hot") == 0, 600, "all jobs have ended"
    )
    states = dict(fresh.db.sql("select state, count(*) from deferred.job group by 1"))
    assert states == {"done": len(feed.jobs)}, states
    assert fresh.db.sql("select invariant, job_id, detail from deferred.check_ledger()") == []

    # apt knows that both come from the repository. Removal stops the service.
    repository.add(packages)
    fresh.run("apt-get", "-q", "update")
    assert f"Candidate: {new}-1~deb{RELEASES[fresh.suite]}u1" in fresh.run("apt-cache", "policy", "deferred")
    apt(fresh, "remove", *NAMES)
    service.join(60)
    assert not service.is_alive() and service.codes[-1] == 0, service.output
    apt(fresh, "purge", *NAMES)
    for path in ["/root/*.deb", "/srv/tasks", "/run/systemctl"]:
        call(["sh", "-c", f"rm -rf {fresh.path(path)}"])
    left = {line.split(" ")[0] for line in fresh.files() ^ clean}
    left = [path for path in sorted(left) if not path.startswith("./srv/repo")]
    assert left == [], left
