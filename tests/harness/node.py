"""Programs for Node.js, with the packages they need. npm installs those below build/ at the
versions of a lock file, once; scripts run from there too, since modules are looked for beside the
script that names them.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess

import pg

NODE = os.environ.get("NODE") or shutil.which("node") or "/usr/bin/node"
# Node 18, which Debian 12 has, lacks the global `crypto` without this; the client of Azure queues uses it.
WEBCRYPTO = "--experimental-global-webcrypto"


class NodeError(Exception):
    pass


def need_programs():
    if shutil.which("npm") and os.path.exists(NODE):
        return
    done = subprocess.run(
        [os.path.join(pg.TOP, "tests", "harness", "deps.sh"), "nodejs", "npm"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        raise NodeError("node and npm are needed, and cannot be installed:\n" + done.stderr)


def old():
    """Whether this is Node 18 or older."""
    said = subprocess.run([NODE, "--version"], stdout=subprocess.PIPE, text=True).stdout
    return int(said.lstrip("v").partition(".")[0]) < 19


def install(name, source):
    """Folder build/NAME with the packages that package.json and package-lock.json of the folder source name."""
    folder = os.path.join(pg.BUILD, name)
    os.makedirs(folder, exist_ok=True)
    files = [os.path.join(source, f) for f in ("package.json", "package-lock.json", ".npmrc")]
    wanted = hashlib.sha256()
    for path in files:
        with open(path, "rb") as f:
            wanted.update(f.read())
    stamp = os.path.join(folder, "installed")
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        need_programs()
        if old():
            os.environ["NODE_OPTIONS"] = WEBCRYPTO
        if os.path.exists(stamp):
            with open(stamp) as f:
                if f.read() == wanted.hexdigest():
                    return folder
        for path in files:
            shutil.copy(path, folder)
        done = subprocess.run(
            ["npm", "ci", "--prefix", folder, "--no-engine-strict", "--loglevel", "error"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            raise NodeError(
                f"npm cannot install what {os.path.relpath(files[1], pg.TOP)} names; is a registry in reach (npm "
                f"ping)?\n{done.stdout}"
            )
        with open(stamp, "w") as f:
            f.write(wanted.hexdigest())
    return folder


def scripts(folder, source):
    """Brings the scripts (*.mjs) of the folder source beside the packages."""
    for name in os.listdir(source):
        if name.endswith(".mjs"):
            new = os.path.join(folder, f".{name}.{os.getpid()}")
            shutil.copy(os.path.join(source, name), new)
            os.rename(new, os.path.join(folder, name))
