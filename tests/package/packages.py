"""The Debian packages (cron/debian), made by `make deb`, in a small Debian of their own: installed,
used, upgraded, removed, purged.

`make check-packages` runs this, as root: it takes minutes and is no part of `make check`. The small
Debian has what the packages depend on, is made by mmdebstrap from the machine's own package
sources, and kept below build/.
"""

import glob
import hashlib
import json
import os
import re
import subprocess

import pytest

import harness
import pg

NAMES = ["libdeferred1", "libdeferred-dev", "deferred", "deferred-http"]
# What installing and removing any package leaves: the books of dpkg, its logs, accounts, the cache of ldconfig.
BOOKS = re.compile(
    r"\./(var/lib/dpkg|var/cache/(debconf|ldconfig|man)|var/log/(dpkg\.log|alternatives\.log|apt)|etc/ld\.so\.cache"
    r"|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?|run/(lock|adduser)|proc|sys|dev)(/|$)"
)


def call(args, **kw):
    done = subprocess.run(
        args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kw
    )
    assert done.returncode == 0, f"{args}: {done.returncode}\n{done.stdout[-6000:]}"
    return done.stdout


def make_packages(place, env=None):
    call(
        ["make", "-s", "--no-print-directory", "deb", f"DEB_PLACE={place}"],
        cwd=pg.TOP,
        env={**os.environ, "MAKEFLAGS": "", **(env or {})},
    )
    return {os.path.basename(path).split("_")[0]: path for path in glob.glob(os.path.join(place, "*.deb"))}


@pytest.fixture(scope="module")
def packages():
    return make_packages(os.path.join(pg.TOP, "build/deb"))


def field(package, name):
    return call(["dpkg-deb", "-f", package, name]).strip()


def digests(packages):
    found = {}
    for name, path in packages.items():
        with open(path, "rb") as f:
            found[name] = hashlib.sha256(f.read()).hexdigest()
    return found


def test_lintian_finds_no_errors(packages):
    assert set(NAMES) <= set(packages)
    changes = glob.glob(os.path.join(pg.TOP, "build/deb/*.changes"))
    said = call(["lintian", "--allow-root", "--fail-on", "error", "--tag-display-limit", "0", *changes])
    print(said)
    assert not re.search("(?m)^E:", said)


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


def test_a_second_build_elsewhere_without_git_gives_the_same_packages(packages, tmp_path):
    again = make_packages(
        str(tmp_path / "again"), {"DEB_BUILD_OPTIONS": "nocheck", "TZ": "Asia/Kathmandu", "LC_ALL": "C"}
    )
    assert digests(again) == digests(packages)


# ---- a small Debian


class Debian:
    SOCKET = "/srv/postgresql"

    def __init__(self, root, cluster):
        self.root, self.cluster = str(root), cluster
        os.makedirs(self.path(self.SOCKET))

    def run(self, *args, env=None, ok=True):
        """Run a program inside. Returns what it said on both outputs."""
        script = (
            'mount --bind "$1" "$0$2" && mount --bind /proc "$0/proc" && mount --bind /dev "$0/dev" && root=$0 '
            '&& shift 2 && exec chroot "$root" "$@"'
        )
        done = subprocess.run(
            [
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                script,
                self.root,
                self.cluster.folder,
                self.SOCKET,
                *args,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": "/root",
                "LC_ALL": "C.UTF-8",
                "DEBIAN_FRONTEND": "noninteractive",
                **(env or {}),
            },
        )
        assert not ok or done.returncode == 0, f"{args}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def deferred(self, *args):
        return self.run(*args, env={"DEFERRED_DB": self.cluster.conninfo("packages", host=self.SOCKET)})

    def path(self, name):
        return os.path.join(self.root, name.lstrip("/"))

    def read(self, name):
        with open(self.path(name)) as f:
            return f.read()

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)

    def files(self):
        """All of it, with mode and owner, but for the books."""
        listed = call(["find", ".", "-printf", "%p %M %u %g\n"], cwd=self.root).splitlines()
        return {line for line in listed if not BOOKS.match(line.split(" ")[0])}


@pytest.fixture(scope="module")
def debian(packages, cluster, tmp_path_factory):
    depends = set()
    for name in NAMES:
        for one in field(packages[name], "Depends").split(","):
            one = one.split("|")[0].split("(")[0].strip()
            depends |= {one} - set(NAMES)
    depends = sorted(depends - {"libpq-dev", "libjansson-dev"} | {"cron", "logrotate", "init-system-helpers"})
    kept = os.path.join(pg.TOP, "build/packages", hashlib.sha256(" ".join(depends).encode()).hexdigest()[:12] + ".tar")
    if not os.path.exists(kept):
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        suite = re.search(r"(?m)^VERSION_CODENAME=(\w+)", open("/etc/os-release").read())[1]
        call(
            ["mmdebstrap", "--quiet", "--variant=essential", "--include=" + ",".join(depends), suite, kept + ".new.tar"]
        )
        os.rename(kept + ".new.tar", kept)
    root = tmp_path_factory.mktemp("debian")
    call(["tar", "-C", root, "-xf", kept, "--exclude=./dev/*"])
    cluster.create_db("packages")
    return Debian(root, cluster)


def install(debian, packages, *options):
    for name in NAMES:
        call(["cp", packages[name], debian.path("/root")])
    # Development is the business of who has the compiler: its package is unpacked, but not asked
    # for what it depends on.
    return debian.run(
        "dpkg",
        *options,
        "--force-depends-version",
        "--ignore-depends=libpq-dev,libjansson-dev",
        "--install",
        *[f"/root/{os.path.basename(packages[n])}" for n in NAMES],
    )


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
            f.write(text.replace("0.1.0-1", "0.1.0-2"))
        if name == "deferred":
            with open(os.path.join(tree, "etc/deferred/deferred.conf"), "a") as f:
                f.write("# of the next version\n")
        made[name] = os.path.join(place, f"{name}_0.1.0-2.deb")
        call(["dpkg-deb", "--root-owner-group", "-b", tree, made[name]])
    return made


def run_a_job(debian, label):
    """Defer, run as cron's line would, and look."""
    job = debian.deferred("deferred", "add", "whoami", "--label", label).strip()
    debian.deferred("check_deferred")
    return json.loads(debian.deferred("deferred", "--json", "show", job))


def test_installed_used_upgraded_removed_and_purged(debian, packages, tmp_path):
    before = debian.files()
    install(debian, packages)

    # Installed: nothing runs, the user is there and owns nothing but its home.
    assert debian.run("deferred", "--version").strip() == "deferred 0.1.0"
    assert debian.run("check_deferred", "--version").startswith("check_deferred 0.1.0, schema ")
    assert debian.run("deferred_http", "--version").startswith("deferred_http 0.1.0")
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
    conf = debian.read("/etc/deferred/deferred.conf") + '\nfunction "whoami" { command = {"/usr/bin/id", "-un"} }\n'
    debian.write("/etc/deferred/deferred.conf", conf)
    cron = debian.read("/etc/cron.d/deferred").replace(
        f"#*/2 * * * *   root   {command}", f"*/2 * * * *   root   {command}"
    )
    debian.write("/etc/cron.d/deferred", cron)
    assert "functions and views" in debian.deferred("deferred", "migrate")
    job = run_a_job(debian, "first")
    assert (job["state"], job["attempts"][0]["result"]) == ("done", "deferred"), job
    said = debian.run("deferred", "run", "send_mail", '{"to": "ann@example.org", "text": "t"}', ok=False)
    assert said.startswith("deferred: send_mail failed: the sender is missing"), said

    # Upgraded: what the administrator has changed is as it was, and works.
    said = install(debian, next_version(packages, str(tmp_path)), "--force-confdef", "--force-confold")
    assert (
        debian.run("dpkg-query", "-W", "-f", "${Version} ${Status}\n", *NAMES) == "0.1.0-2 install ok installed\n" * 4
    ), said
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
    call(["sh", "-c", f"rm -f {debian.path('/root')}/*.deb"])
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
