"""Resident programs: a function that does nothing in each language, against the plugin's and against a command."""

import os
import shutil
import subprocess
import time

import pg
from scenarios.memory import field
from stage import PARAMS, PROGRAMS, Failed, Run

TITLE = "Functions of resident programs"
NO_LIMIT = "max_jobs = 0"
LIBRARIES, TASKS = os.path.join(pg.TOP, "lib", "languages"), os.path.join(pg.TOP, "tests", "programs")
PERL_LIB = f"PERL5LIB={LIBRARIES}/perl/lib"
# Program, its share of the plugin's rate at least, private memory at most (MiB), and a command that does the same.
LANGUAGES = {
    "C": ([f"{PROGRAMS}/program_min"], 0.6, None, ["/bin/true"]),
    "PHP": (["/usr/bin/php", f"{TASKS}/php/tasks.php"], 0.4, 10, ["/usr/bin/php", "-r", "json_decode(fgets(STDIN));"]),
    "Python": (
        [
            "/usr/bin/env",
            f"PYTHONPATH={LIBRARIES}/python:{TASKS}/python",
            "/usr/bin/python3",
            "-m",
            "deferred",
            "tasks",
        ],
        0.25,
        10,
        ["/usr/bin/python3", "-c", "import json, sys; json.load(sys.stdin)"],
    ),
    "Node": (
        ["/usr/bin/node", f"{TASKS}/node/tasks.mjs"],
        0.25,
        50,
        ["/usr/bin/node", "-e", "JSON.parse(require('fs').readFileSync(0))"],
    ),
    "Perl with XS": (
        ["/usr/bin/env", PERL_LIB, "/usr/bin/perl", f"{TASKS}/perl/tasks.pl"],
        0.25,
        8,
        ["/usr/bin/perl", "-MJSON::PP", "-e", "decode_json(<STDIN>)"],
    ),
    "Perl without XS": (
        [
            "/usr/bin/env",
            f"{PERL_LIB}:{LIBRARIES}/perl/t",
            "PERL5OPT=-MCoreOnly",
            "/usr/bin/perl",
            f"{TASKS}/perl/tasks.pl",
        ],
        0.12,
        8,
        None,
    ),
}
# Their programs run at least 200 times as many jobs as their commands.
FAST = ("PHP", "Python", "Node")


def installed(name):
    """Of the languages those that this machine has."""
    interpreter = next(word for word in LANGUAGES[name][0] if word.startswith("/") and word != "/usr/bin/env")
    if name == "Perl with XS":
        return subprocess.run(["perl", "-MCpanel::JSON::XS", "-e1"], capture_output=True).returncode == 0
    return shutil.which(interpreter) is not None


def quoted(words):
    return "{" + ", ".join('"' + word.replace('"', '\\"') + '"' for word in words) + "}"


class Config:
    """Config files, each with a program or a command."""

    def __init__(self, b):
        self.folder = b.stage.run_dir

    def write(self, name, text):
        path = os.path.join(self.folder, name.replace(" ", "_") + ".conf")
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o600)
        return path

    def program(self, language, *members, declared=True):
        text = f'program "bench" {{ command = {quoted(LANGUAGES[language][0])} {" ".join(members)} }}\n'
        if declared:
            text += 'function "nothing" { program = "bench" timeout = 60s }\n'
        return self.write(f"program {language} {declared} {len(' '.join(members))}", text)

    def command(self, language):
        return self.write(
            f"command {language}", f'function "nothing" {{ command = {quoted(LANGUAGES[language][3])} }}\n'
        )


def private_mib(b, db, config):
    """Memory that one more program needs, idle after 1,000 jobs. Two runners have started theirs before the first job.
    So the code of the interpreter, which all its processes share, does not count."""
    db.clear()
    db.fill(1000, fn="nothing")
    run = Run([*db.command(config=config, runners=2), "--loop"])
    try:
        while db.ready():
            if run.process.poll() is not None:
                raise Failed("check_deferred ended before it had executed all jobs")
            time.sleep(0.05)
        programs = [program for runner in pg.children_of(run.pid) for program in pg.children_of(runner)]
        if len(programs) != 2:
            raise Failed(f"{len(programs)} programs run, not 2")
        kinds = ("Private_Clean:", "Private_Dirty:")
        return max(sum(field(program, "smaps_rollup", kind) for kind in kinds) for program in programs) / 1024
    finally:
        run.stop()


def run(b):
    config, names = Config(b), [name for name in LANGUAGES if installed(name)]
    jobs, few = b.size(50000, 2000), 20 if b.quick else 300
    with b.database() as db:

        def rate(n, fn, path, params=PARAMS):
            def measure():
                db.clear()
                db.fill(n, fn=fn, params=params)
                db.settle()
                seconds = db.work(1, cnt=0, config=path)
                db.expect(n, 0)
                return n / seconds

            return measure

        ways = {"plugin": rate(jobs, "noop", "/dev/null")}
        for name in names:
            ways[name] = rate(jobs, "nothing", config.program(name, NO_LIMIT))
        f = b.in_turns(ways)
        commands = {name: rate(few, "nothing", config.command(name)) for name in names if LANGUAGES[name][3]}
        c = b.in_turns(commands)
        b.report.row(f"{jobs:,} jobs of a plugin", f["plugin"], "jobs/s")
        for name in names:
            b.report.row(
                f"{jobs:,} jobs of a program, {name}, against that",
                f[name],
                "jobs/s",
                f["plugin"],
                least=LANGUAGES[name][1],
            )
        for name in commands:
            b.report.row(
                f"a program against a command, {name}", f[name], "jobs/s", c[name], least=200 if name in FAST else None
            )
        limits = {
            limit: rate(jobs, "nothing", config.program("Python", limit)) for limit in (NO_LIMIT, "max_jobs = 1000")
        }
        f = b.in_turns(limits)
        b.report.row(
            "Python, replaced after 1,000 jobs, against never", f["max_jobs = 1000"], "jobs/s", f[NO_LIMIT], least=0.7
        )
        size, n = 1000000, max(few, 100)
        params = '"' + "x" * (size - 2) + '"'
        large = {
            "plugin": rate(n, "noop", "/dev/null", params),
            "Python": rate(n, "nothing", config.program("Python", NO_LIMIT), params),
        }
        f = {way: jobs * size / 1e6 for way, jobs in b.in_turns(large).items()}
        b.report.row("params of 1 MB, a plugin", f["plugin"], "MB/s")
        b.report.row("params of 1 MB, Python, against that", f["Python"], "MB/s", f["plugin"], value_least=200)
        for name in names:
            if LANGUAGES[name][2]:
                mib = private_mib(b, db, config.program(name, NO_LIMIT, declared=False))
                b.report.row(
                    f"memory of one more program, {name}, idle after 1,000 jobs",
                    mib,
                    "MiB",
                    value_most=LANGUAGES[name][2],
                )
