"""Builds and tests the present commit in bare systems of Debian, as root: `make check-bare`.

    bare.py SUITE...                   make each system and run all steps in it
    bare.py --enter SUITE [COMMAND]    run a command, or a shell, as root in a system that was kept

mmdebstrap makes each system below build/bare from the package sources, the apt settings and the certificates of this
machine. It contains no compiler and no server: the steps install what they need. A step runs in its own namespaces, so
that its mounts and processes end with it, even when this program is killed. BARE_KEEP=1 keeps the systems.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BARE = os.path.join(TOP, "build", "bare")
CERTIFICATES = "usr/local/share/ca-certificates"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
USER = "builder"

# Programs and clients behave differently without root. What a server does is the same, so tests/sql runs once. Most of
# tests/faults looks into processes, which takes root.
AS_USER = "tests/bin tests/plugins tests/programs -m 'not long and not slow' -rfEs"
STEPS = [
    ("root", "make demo"),
    ("root", "make check"),
    (USER, "make"),
    (USER, "make install DESTDIR=$HOME/installed"),
    (USER, "make demo"),
    (USER, "make check-unit"),
    (USER, f'make check-quick TESTS="{AS_USER}"'),
    ("root", "tests/harness/deps.sh clang"),
    (USER, "make CC=clang tests"),
]

# $0 is the folder of the system. The shell that is left stays the parent of all processes, and so collects orphans.
ENTER = """
mount --bind "$0" "$0" && cd "$0" && mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev &&
mount -t tmpfs tmpfs dev/shm && chmod 1777 dev/shm && pivot_root . mnt || exit
exec chroot . sh -c 'umount -l /mnt && "$@"; exit $?' sh "$@"
"""


def output(args):
    return subprocess.run(args, cwd=TOP, stdout=subprocess.PIPE, text=True, check=True).stdout


def isolated(args):
    """A command line whose processes and mounts end when this process ends, in whatever way."""
    namespaces = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
    return ["setpriv", "--pdeathsig", "KILL", *namespaces, *args]


def inside(root, user, args):
    change = [] if user == "root" else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
    return isolated(["sh", "-c", ENTER, root, *change, *args])


def environment(user):
    home = "/root" if user == "root" else f"/home/{user}"
    kept = {k: v for k, v in os.environ.items() if re.fullmatch(r"(?i)(https?|no)_proxy|TERM", k)}
    if shutil.which("npm"):
        kept["npm_config_registry"] = output(["npm", "config", "get", "registry"]).strip()
    return {
        **kept,
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": home,
        "USER": user,
        "LC_ALL": "C.UTF-8",
        "WERROR": "1",
        "NODE_EXTRA_CA_CERTS": BUNDLE,
        "npm_config_cafile": BUNDLE,
    }


def package_sources(suite):
    """The sources of this machine's release, for another suite."""
    with open("/etc/os-release") as f:
        here = re.search(r"(?m)^VERSION_CODENAME=(\w+)", f.read())[1]
    fields = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
    lines = sorted(line.split(" ") for line in set(output(fields).splitlines()))
    return [
        f"deb {uri} {suite}{release[len(here):]} {component}"
        for uri, release, component in lines
        if re.fullmatch(rf"{here}(-updates|-security)?", release)
    ]


def apt_settings():
    """How this machine downloads: proxies, retries, what is checked. What is in the lists is left as it is."""
    pattern = r"Acquire::(?:https?|ftp|Check-|Retries|Max-|ForceIPv)[^ ]* .*;"
    return "\n".join(re.findall(rf"(?m)^{pattern}$", output(["apt-config", "dump"]))) + "\n"


def make_system(suite, root, log):
    os.makedirs(root)
    settings = root + ".apt"
    with open(settings, "w") as f:
        f.write(apt_settings())
    options = ["--quiet", "--variant=minbase", "--include=ca-certificates,git,make", f"--aptopt={settings}"]
    made = ["mmdebstrap", *options, suite, root, *package_sources(suite)]
    subprocess.run(isolated(made), stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
    os.unlink(settings)
    if os.path.isdir("/" + CERTIFICATES):
        shutil.copytree("/" + CERTIFICATES, os.path.join(root, CERTIFICATES), dirs_exist_ok=True)
    shutil.copy("/etc/resolv.conf", os.path.join(root, "etc/resolv.conf"))
    with open(os.path.join(root, "etc/hosts"), "w") as f:
        f.write("127.0.0.1 localhost\n::1 localhost\n")
    with open(os.path.join(root, "usr/sbin/policy-rc.d"), "w") as f:
        f.write("#!/bin/sh\nexit 101\n")  # Installed packages start no services, as in a container.
    os.chmod(f.name, 0o755)
    output(["git", "bundle", "create", "-q", os.path.join(root, "srv/deferred.bundle"), "HEAD"])
    prepare = f"update-ca-certificates && useradd -m -s /bin/sh {USER} && apt-get -q update"
    clone = "cd && git -c advice.detachedHead=false -c init.defaultBranch=main clone -q /srv/deferred.bundle deferred"
    for user, script in ("root", prepare), ("root", clone), (USER, clone):
        args = inside(root, user, ["sh", "-ec", script])
        subprocess.run(args, env=environment(user), stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)


def counted(text):
    """What a step says about its tests, for the closing lines."""
    said = re.findall(r"(?m)^\d+ passed, \d+ failed$", text)[-1:] or re.findall(r"(?m)^Files=\d+, Tests=\d+", text)
    skipped = re.findall(r"(?m)^\d+ s, (\d+ skipped)", text)
    return ", ".join(said + skipped)


class Report:
    def __init__(self, suite):
        self.suite, self.lines, self.failed = suite, [], False

    def step(self, user, name, run):
        """Run one step, which returns whether it succeeded. Its output goes to a file."""
        place = os.path.join(BARE, f"{self.suite}-{len(self.lines) + 1}.log")
        print(f"{self.suite}: {user}: {name} (output in {os.path.relpath(place, TOP)})", flush=True)
        began = time.monotonic()
        with open(place, "w+", errors="replace") as log:
            good = run(log)
            log.seek(0)
            text = log.read()
        if not good:
            print("".join(text.splitlines(True)[-60:]))
            self.failed = True
        for line in re.findall(r"(?m)^SKIPPED .*", text):
            print("    " + line)
        result = ": ".join(filter(None, ["ok" if good else "FAILED", counted(text)]))
        seconds = f"{time.monotonic() - began:.0f} s"
        self.lines.append(f"{self.suite:10}{user:9}{seconds:>7}  {name.partition(' TESTS=')[0]}: {result}")
        return good


def run_suite(suite):
    root, report = os.path.join(BARE, suite), Report(suite)
    shutil.rmtree(root, ignore_errors=True)

    def made(log):
        try:
            make_system(suite, root, log)
        except subprocess.CalledProcessError as e:
            print(e, file=log, flush=True)
            return False
        return True

    def called(user, command):
        args = inside(root, user, ["sh", "-c", "cd ~/deferred && exec " + command])
        how = {"env": environment(user), "stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        return lambda log: subprocess.run(args, stdout=log, **how).returncode == 0

    try:
        if report.step("root", "mmdebstrap, git clone", made):
            for user, command in STEPS:
                report.step(user, command, called(user, command))
    finally:
        if os.environ.get("BARE_KEEP"):
            print(f"kept: {root}\nhint: {sys.executable} {os.path.relpath(__file__)} --enter {suite}")
        else:
            shutil.rmtree(root, ignore_errors=True)
    return report


def main():
    parser = argparse.ArgumentParser(description="the present commit in bare systems of Debian")
    parser.add_argument("--enter", metavar="SUITE")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bare.py: only root can make a system\nhint: sudo make check-bare")
    if args.enter:
        command = ["sh", "-c", "cd && exec " + (" ".join(args.words) or "sh")]
        os.execvpe("setpriv", inside(os.path.join(BARE, args.enter), "root", command), environment("root"))
    for sign in signal.SIGTERM, signal.SIGHUP:
        signal.signal(sign, lambda *_: sys.exit(1))
    os.makedirs(BARE, exist_ok=True)
    if output(["git", "status", "--porcelain"]):
        print("The tree has changes that are not committed. The systems get the last commit, without them.")
    reports = [run_suite(suite) for suite in args.words]
    print("\n".join(line for report in reports for line in report.lines))
    sys.exit(any(report.failed for report in reports) or not reports)


if __name__ == "__main__":
    main()
