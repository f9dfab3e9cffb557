"""The file RELEASES, and builds of what it names.

    releases.py build    build the last release below build/upgrade, and print where
"""

import collections
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLACE = os.path.join(TOP, "build", "upgrade")
LINE = re.compile(r"(\d+\.\d+\.\d+(?:-rc\d+)?) (\d{4}-\d\d-\d\d) ([0-9a-f]{40})")
# What the campaign runs.
TARGETS = ["all", "build/tests/plugins/unruly.so"]

Release = collections.namedtuple("Release", "version date commit")


def releases(path=os.path.join(TOP, "RELEASES")):
    """All of them, the oldest first."""
    with open(path) as f:
        lines = [line.rstrip("\n") for line in f if not line.startswith("#")]
    bad = [line for line in lines if not LINE.fullmatch(line)]
    if bad:
        raise ValueError(f"RELEASES: '{bad[0]}' is not a version, a date and a commit of 40 digits")
    return [Release(*LINE.fullmatch(line).groups()) for line in lines]


def git(*args, top=TOP):
    return subprocess.run(["git", "-C", top, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def has(commit, top=TOP):
    """Whether this clone has the commit. A shallow clone lacks old ones, and a tarball has none."""
    return git("cat-file", "-e", commit + "^{commit}", top=top).returncode == 0


def unpack(release, place, top=TOP):
    """The source of a release in a folder of its own, without what an earlier call built there from another commit."""
    if not has(release.commit, top):
        raise LookupError(
            f"release {release.version}: commit {release.commit} is not in this clone\n"
            "hint: run in a clone of the whole history: git fetch --unshallow"
        )
    mark = os.path.join(place, "COMMIT")
    if os.path.exists(mark) and open(mark).read() == release.commit:
        return
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    archive = git("archive", release.commit, top=top)
    subprocess.run(["tar", "-x", "-C", place], input=archive.stdout, check=True)
    with open(mark, "w") as f:
        f.write(release.commit)


def make(place, targets=TARGETS):
    """Builds a source tree with default settings, whatever make has called us. Returns its folder of builds."""
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "SANITIZE")}
    done = subprocess.run(
        ["make", "-s", f"-j{len(os.sched_getaffinity(0))}", *targets],
        cwd=place,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"make in {place}: exit status {done.returncode}\n{done.stdout[-3000:]}")
    return os.path.join(place, "build")


def build(release):
    place = os.path.join(PLACE, release.version)
    unpack(release, place)
    return make(place)


def main():
    if sys.argv[1:] != ["build"]:
        sys.exit(__doc__)
    try:
        print(build(releases()[-1]))
    except (LookupError, RuntimeError, ValueError) as e:
        sys.exit(f"check-upgrade: {e}")


if __name__ == "__main__":
    main()
