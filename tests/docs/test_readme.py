"""README is typed as it stands, from top to bottom; what the test changes is where things lie, and
what they are called."""

import glob
import inspect
import os
import re
import sys

import psycopg2
import pytest

import front
import harness
import pg
from documents import fenced, read, typed

BLOCKS = [b for b in fenced(read("README.md")) if "+----" not in b]  # but the picture


def block(word):
    """The only block with this in it."""
    found = [b for b in BLOCKS if word in b]
    assert len(found) == 1, (word, found)
    return found[0]


def test_each_block_is_typed_by_a_test():
    words = set(re.findall(r'block\("([^"]+)"\)', inspect.getsource(sys.modules[__name__])))
    assert [b for b in BLOCKS if len([w for w in words if w in b]) != 1] == []
    assert {block(w) for w in words} == set(BLOCKS)


def test_the_targets_are_there():
    makefiles = "".join(map(read, ("Makefile", "tests/tests.mk", "tests/bench/bench.mk", "cron/packaging.mk")))
    for name in set(re.findall(r"`?make (?:-s )?([a-z-]+)", read("README.md"))):
        assert re.search(rf"(?m)^[\w -]*\b{name}\b[\w -]*:", makefiles), name


def bash(text, env, cwd, **kw):
    done = harness.run(["bash", "-e", "-o", "pipefail", "-c", text], env=env, cwd=cwd, **kw)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done


@pytest.mark.slow
def test_it_can_be_tried(tmp_path):
    """A fresh checkout has no /etc/deferred: what `make pg` prints is all that these steps, and
    those of deferred_http(8), need."""

    def kept(call):
        return f"import pg; pg.KEPT = {str(tmp_path / 'pg')!r}; pg.PLACE = pg.KEPT + '/place'; pg.{call}()"

    make = 'make() { [ "$*" = "-s pg" ] && (cd tests/harness && "$PYTHON" -B -c "$KEEP"); }\n'
    steps = typed(block("make -s pg"))
    shown = [line for _, lines in steps for line in lines]
    text = make + "\n".join(command for command, _ in steps).replace('"$PWD/build/bin', f'"{harness.BUILD}/bin')
    more = (
        "\ndeferred account add acme; deferred account allow acme echo; psql -Xqc 'create table orders ()'; "
        "psql -XAtc \"select to_regclass('public.orders')\""
    )
    env = {"PYTHON": sys.executable, "KEEP": kept("keep"), "DEFERRED_ALLOW_ROOT": ""}
    try:
        said = bash(text + more, env, pg.TOP).stdout
        assert said.endswith("\norders\n"), said
        printed = said.splitlines()
        assert [line for line in shown if line != "..." and line not in printed] == [], said
        assert (tmp_path / "pg" / "http.key").stat().st_mode & 0o777 == 0o600
    finally:
        harness.run([sys.executable, "-B", "-c", kept("stop_kept")], cwd=os.path.join(pg.TOP, "tests", "harness"))


@pytest.fixture
def app(db):
    """A database with the application's table, and the application's role, by which `db.env` reaches it."""
    role = db.name + "_web"
    db.sql(
        f"create role {role} login in role deferred_producer; create table public.orders (customer text); "
        f"grant insert on public.orders to {role}"
    )
    db.env.update(db.cluster.env(db.name), PGUSER=role)
    yield db
    db.sql(f"drop table public.orders; drop owned by {role}; drop role {role}")


if not harness.SAN:  # what is deferred here is deferred by SQL alone
    # A program around the line that README has for a language: it places an order and defers a call in one transaction.
    AROUND = {
        "PHP (PDO)": (
            "php",
            "<?php $params = '{\"name\": \"Ann\"}'; $db = new PDO('pgsql:dbname=app'); $db->beginTransaction();\n"
            "$db->exec(\"insert into orders (customer) values ('ann@example.org')\");\n{};\n$db->commit();",
        ),
        "Python (psycopg 2 and 3)": (
            "/usr/bin/python3",
            "import json, psycopg2\nparams = json.dumps({'name': 'Ann'})\n"
            "with psycopg2.connect('dbname=app') as db, db.cursor() as cursor:\n"
            "    cursor.execute(\"insert into orders (customer) values ('ann@example.org')\")\n    {}\n",
        ),
        "Node (pg)": (
            front.Node.NODE,
            "import pg from 'pg';\nconst params = {name: 'Ann'}, db = new pg.Client({database: 'app', host: "
            "process.env.PGHOST});\n"
            "await db.connect();\nawait db.query('begin');\nawait db.query(\"insert into orders (customer) "
            "values ('ann@example.org')\");\n{};\n"
            "await db.query('commit');\nawait db.end();",
        ),
        "Perl (DBI)": (
            "/usr/bin/perl",
            "use strict; use warnings; use DBI;\nmy $params = '{\"name\": \"Ann\"}';\n"
            "my $db = DBI->connect('dbi:Pg:dbname=app', '', '', { RaiseError => 1, AutoCommit => 0 });\n"
            "$db->do(q(insert into orders (customer) values ('ann@example.org')));\n{};\n$db->commit;",
        ),
    }
    LINES = dict(re.findall(r"(?m)^\| ([^|`]+?) \| `([^`]+)`", read("README.md")))

    def test_it_is_deferred_from_sql_and_every_language(app):
        def program(interpreter, name, text, folder=app.dir):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as f:
                f.write(re.sub(r"(dbname=|database: ')app\b", rf"\g<1>{app.name}", text))
            try:
                done = app.run([interpreter, path])
            finally:
                os.unlink(path)
            assert done.returncode == 0 and done.stdout + done.stderr == "", (name, done.stdout, done.stderr)

        conninfo = app.cluster.conninfo(app.name).replace("user=deferred", "user=" + app.env["PGUSER"])
        with psycopg2.connect(conninfo) as by_web, by_web.cursor() as cursor:
            cursor.execute(block("select deferred.send_mail"))
        by_web.close()
        scripts = front.Node(app)
        for language, (interpreter, around) in AROUND.items():
            text = around.replace("{}", LINES[language])
            node = language.startswith("Node")
            program(interpreter, app.name + ".mjs" if node else "app", text, scripts.folder if node else app.dir)
            if "psycopg2" in text:
                program(interpreter, "app", text.replace("psycopg2", "psycopg"))
        assert app.sql("select customer, count(*) from public.orders group by 1") == [("ann@example.org", 6)]
        role = app.env["PGUSER"]
        assert app.sql(
            "select d.fn, params::jsonb, label, due_at > d.created_at + interval '4 minutes', created_by"
            " from deferred.__deferred d join deferred.__deferred_hot using (id) order by id"
        ) == [
            (
                "send_mail",
                {"to": ["ann@example.org"], "subject": "Thank you", "text": "We are packing."},
                "Thank you",
                True,
                role,
            ),
            *[("hello", {"name": "Ann"}, None, None, role)] * 6,
        ]

    class Typist:
        """Bash in a folder below which things are installed, with a database and roles that no other test has."""

        def __init__(self, db):
            self.db, self.root, self.place = db, db.dir, db.dir + "/usr/local"
            self.app, self.web, self.cron = (db.name + end for end in ("_app", "_web", "_cron"))
            self.names = (
                (r"(?<![\w.])/etc/(?=deferred)", self.root + "/etc/"),
                ("/usr/local/bin/", self.place + "/bin/"),
                (r"/usr/local/lib\b", self.place + "/lib"),
                ("/var/log/", self.root + "/"),
                (r"\bwebapp\b", self.web),
                (r"\b(role|to) root\b", rf"\1 {self.cron}"),
                (r'\b(createdb |psql |dbname=)app\b', rf"\1{self.app}"),
            )
            # Runner and reader of the config file are looked for where the prefix is, or beside the programs.
            self.env = {
                **db.cluster.env(),
                "PATH": f"{self.place}/bin:{os.environ['PATH']}",
                "LD_LIBRARY_PATH": self.place + "/lib",
                "PKG_CONFIG_PATH": self.place + "/lib/pkgconfig",
                "DEFERRED_PLUGIN_DIR": self.place + "/lib/deferred/plugins",
                "DEFERRED_CONFIG": self.root + "/etc/deferred/deferred.conf",
                "DEFERRED_PIDFILE": self.root + "/pid",
                "DEFERRED_ALLOW_ROOT": "",
                "MAKEFLAGS": "",
                "MAKELEVEL": "",
            }
            self.ahead = f"""make() {{ [ "$*" != install ] || {{ command make -s -C {pg.TOP} install \\
                    DESTDIR={self.root} &&
                    ln -s {self.place}/libexec/deferred/* {self.place}/bin; }}; }}
                ldconfig() {{ :; }}
                useradd() {{ [ "$*" = "--system --create-home -d /var/lib/deferred deferred" ]; }}
                pkg-config() {{ command pkg-config --define-variable=prefix={self.place} \\
                    --define-variable=plugindir={self.place}/lib/deferred/plugins "$@"; }}
                """

        def named(self, text):
            for old, new in self.names:
                text = re.sub(old, new, text)
            return text

        def __call__(self, text, **env):
            return bash(
                self.ahead + "trap '[ $? = 0 ] || cat deferred.log >&2' EXIT\n" + self.named(text),
                {**self.env, **env},
                self.root,
            )

        def write(self, name, text, how="w"):
            with open(os.path.join(self.root, name), how, encoding="utf-8") as f:
                f.write(self.named(text))

    @pytest.fixture
    def typist(db):
        for folder in (harness.root(), db.dir):
            os.chmod(folder, 0o711)  # functions are nobody's
        t = Typist(db)
        os.symlink(os.path.join(pg.TOP, "cron"), os.path.join(db.dir, "cron"))
        yield t
        db.sql(f"drop database if exists {t.app} with (force)")
        for role in (t.web, t.cron):
            db.sql(f"drop role if exists {role}")

    (COMMAND,) = re.findall(r'`(function "report" .*)`', read("README.md"))

    @pytest.mark.slow
    def test_it_is_installed_and_runs(typist):
        """Installed, set up, and its jobs run by the lines of cron; with a program and a plugin,
        deferred from the shell and from C."""
        t, db = typist, typist.db
        db.sql(f"create role {t.web} login")
        t(block("make install").replace('user = "deferred"', 'user = "nobody"'))
        (python,) = glob.glob(t.place + "/lib/python3*")  # Python itself looks below /usr/local
        path = f"PYTHONPATH=/usr/local/lib/{os.path.basename(python)}/dist-packages"
        program = block("directory = ").replace('"/usr/bin', f'"/usr/bin/env", "{path}", "/usr/bin')
        t.write("etc/deferred/deferred.conf", program + COMMAND + "\n", "a")
        t.write("usr/local/lib/tasks.py", block("from deferred import"))
        t.write("usr/local/lib/report.sh", "#!/bin/sh\nread -r params\necho got $params\nexit $params\n")
        os.chmod(t.place + "/lib/report.sh", 0o755)
        t.write("greetings.c", block("#include <deferred_plugin.h>"))
        build, install = re.findall(r"`((?:cc|install -m) [^`]*greetings[^`]*)`", read("README.md"))
        t(build + "\n" + install)
        with_conn, short = re.search(r"\| C \(libpq\) \| `(.*?)`, or `(.*?)` \|", read("README.md")).groups()
        t.write(
            "app.c",
            "#include <deferred.h>\n#include <libpq-fe.h>\nint main(void)\n{\nstruct deferred_error err;\n"
            "const char *params = \"{\\\"name\\\": \\\"Ann\\\"}\";\nPGconn *conn = PQconnectdb(\"dbname=app\");\n"
            f"int rc = {with_conn};\nPQfinish(conn);\nreturn rc < 0 || {short} < 0;\n}}\n",
        )
        t(
            "cc -Wall -Wextra -Werror -I/usr/include/postgresql -o app app.c $(pkg-config --cflags --libs "
            "libdeferred) -lpq"
        )
        t("./app", PGUSER=t.web)
        (line,) = re.findall(r"\| shell \| `(.*?)` \|", read("README.md"))
        said = t(line + "\ndeferred add greet", PGUSER=t.web)
        assert said.stderr == "" and said.stdout.split() == ["3", "4"]

        lines = re.findall(r"(?m)^\S+ \S+ \S+ \S+ \S+ +root +(.*)", block("*/2 * * * *"))
        assert len(lines) == 2
        options = re.findall(r"(?m)^\| [^|]* \| `check_deferred ?([^`]*)`", read("README.md"))
        assert len(options) == 4 and options[0] == ""
        for given in sorted(options, key=lambda o: "--cnt 0" in o):  # those last that leave none
            t("deferred add greet", PGUSER=t.web)
            t(
                lines[0].replace(
                    "check_deferred ", f"check_deferred {given} {'--cnt 1' if '--loop' in given else ''} "
                ),
                PGUSER=t.cron,
            )
        t(lines[1], PGUSER=t.cron)
        with open(t.root + "/deferred.log") as log:
            log = log.read()
        assert "warning" not in log and "error" not in log, log
        # What was deferred for 5 seconds may be due by now.
        rows = t(
            "psql app -XAtc 'select d.fn, l.outcome, l.result, count(*) from deferred.__deferred_log l"
            " join deferred.__deferred d on d.id = l.job_id group by 1, 2, 3 order by 1'"
        ).stdout
        assert re.sub(r"Ann\|3$", "Ann|2", rows.strip()) == "greet|ok|hello|5\nhello|ok|hello Ann|2", (rows, log)

        # Functions fail as the text says.
        calls = ("hello '{}'", "report 0", "report 65", "report 1")
        ids = [t(f"deferred add {call}", PGUSER=t.web).stdout.strip() for call in calls]
        t(lines[0].replace("check_deferred ", "check_deferred --cnt 0 "), PGUSER=t.cron)
        states = t(
            "psql app -XAtc 'select j.state, l.result, split_part(l.error, chr(10), 1)"
            " from deferred.job j join deferred.__deferred_log l"
            f" on l.job_id = j.id where j.id in ({', '.join(ids)}) order by j.id'"
        ).stdout.splitlines()
        assert [line.split("|")[0] for line in states] == ["delayed", "done", "dead", "delayed"], states
        assert "no name" in states[0] and "got 0" in states[1], states
