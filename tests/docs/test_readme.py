"""README is typed as it stands, from top to bottom; what the test changes is where things lie, and what they are called."""

import inspect
import json
import os
import re
import sys

import psycopg2
import pytest

import front
import harness
import pg
from documents import indented, read

BLOCKS = indented(read("README.md"))


def block(word):
    """The only block with this in it."""
    found = [b for b in BLOCKS if word in b]
    assert len(found) == 1, (word, found)
    return found[0]


def test_each_block_is_typed_by_a_test():
    words = set(re.findall(r'block\("([^"]+)"\)', inspect.getsource(sys.modules[__name__])))
    assert [b for b in BLOCKS if len([w for w in words if w in b]) != 1] == []
    assert {block(w) for w in words} == set(BLOCKS)


def test_the_two_commands_are_targets():
    targets = re.findall(r"(?m)^make (\w+) ", block("make demo"))
    assert targets == ["demo", "check"]
    for name in targets:
        assert re.search(rf"(?m)^{name}: deps-", read("Makefile")), name


def bash(text, env, cwd, **kw):
    done = harness.run(["bash", "-e", "-o", "pipefail", "-c", text], env=env, cwd=cwd, **kw)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done


@pytest.mark.slow
def test_the_first_job(tmp_path):
    """A fresh checkout has no /etc/deferred: what `make pg` prints is all that these steps, and those of deferred_http(8), need."""
    def kept(call):
        return f"import pg; pg.KEPT = {str(tmp_path / 'pg')!r}; pg.PLACE = pg.KEPT + '/place'; pg.{call}()"

    make = 'make() { case "$*" in "") ;; "-s pg") (cd tests/harness && "$PYTHON" -B -c "$KEEP") ;; *) exit 9 ;; esac; }\n'
    first = block("make -s pg").replace('"$PWD/build/bin', f'"{harness.BUILD}/bin')
    more = "deferred account add acme; deferred account allow acme echo; psql -Xqc 'create table orders ()'; psql -XAtc \"select to_regclass('public.orders')\""
    env = {"PYTHON": sys.executable, "KEEP": kept("keep"), "DEFERRED_ALLOW_ROOT": "", "DEFERRED_LIBEXEC_DIR": ""}
    try:
        said = bash(make + first + more, env, pg.TOP).stdout
        assert said.startswith("1\njob ") and '\n1 result: {"hello": "world"}\n' in said and said.endswith("\norders\n"), said
        assert (tmp_path / "pg" / "http.key").stat().st_mode & 0o777 == 0o600
    finally:
        harness.run([sys.executable, "-B", "-c", kept("stop_kept")], cwd=os.path.join(pg.TOP, "tests", "harness"))


@pytest.fixture
def app(db):
    """A database with the application's table, and the application's role, by which `db.env` reaches it."""
    role = db.name + "_web"
    db.sql(f"create role {role} login in role deferred_producer; create table public.orders (customer text); grant insert on public.orders to {role}")
    db.env.update(db.cluster.env(db.name), PGUSER=role)
    yield db
    db.sql(f"drop table public.orders; drop owned by {role}; drop role {role}")


if not harness.SAN:  # what is deferred here is deferred by SQL alone
    def test_it_is_deferred_from_sql_and_every_language(app):
        def program(interpreter, name, text, folder=app.dir):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text.replace("dbname=app", "dbname=" + app.name).replace('"app"', f'"{app.name}"'))
            try:
                done = app.run([interpreter, path])
            finally:
                os.unlink(path)
            assert done.returncode == 0 and done.stdout + done.stderr == "", (name, done.stdout, done.stderr)

        with psycopg2.connect(app.cluster.conninfo(app.name).replace("user=deferred", "user=" + app.env["PGUSER"])) as by_web, by_web.cursor() as cursor:
            cursor.execute(block("select deferred.send_mail"))
            cursor.execute("prepare placeholders as " + re.search(r"`(select deferred\.defer\(\$1, [^`]*)`", read("README.md"))[1])
            cursor.execute("execute placeholders ('hello', '{\"name\": \"Ann\"}', '{\"delay\": \"1h\"}')")
        by_web.close()
        perl, python, javascript = block("use DBI").split("\n\n")
        program("/usr/bin/perl", "app.pl", "use strict; use warnings;\n" + perl)
        for name in ("psycopg2", "psycopg"):
            program("/usr/bin/python3", "app.py", python.replace("psycopg2", name))
        scripts = front.Node(app)
        program(scripts.NODE, app.name + ".mjs", javascript, scripts.folder)
        assert app.sql("select customer, count(*) from public.orders group by 1") == [("ann@example.org", 5)]
        role = app.env["PGUSER"]
        assert app.sql("select d.fn, params::jsonb, label, due_at > now() + interval '4 minutes', created_by from deferred.__deferred d"
                       " join deferred.__deferred_hot using (id) order by id") == [
            ("send_mail", {"to": ["ann@example.org"], "subject": "Thank you", "text": "We are packing."}, "Thank you", True, role),
            ("hello", {"name": "Ann"}, None, None, role), ("hello", {"name": "Ann"}, None, True, role),
            *[("hello", {"name": "Ann"}, None, None, role)] * 4]
        flow = app.one(f"set role {role}; " + block("defer_flow"))
        app.sql("reset role")
        assert app.sql("select j.name, h.due_at = 'infinity' from deferred.flow_jobs(%s) j join deferred.__deferred_hot h on h.id = j.id order by j.id", flow) == [
            ("picked", None), (None, True), (None, True)]


    class Typist:
        """Bash in a folder below which things are installed, with a database and roles that no other test has."""

        def __init__(self, db):
            self.db, self.root, self.place = db, db.dir, db.dir + "/usr/local"
            self.app, self.web, self.cron = (db.name + end for end in ("_app", "_web", "_cron"))
            self.names = ((r"(?<![\w.])/etc/(?=deferred)", self.root + "/etc/"), ("/usr/local/bin/", self.place + "/bin/"), ("/usr/bin/logger", self.place + "/bin/logger"), ("/var/log/", self.root + "/"),
                          (r"\bwebapp\b", self.web), (r"\b(role|to) root\b", rf"\1 {self.cron}"), (r'\b(createdb |psql |dbname=)app\b', rf"\1{self.app}"))
            # Runner and reader of the config file are looked for where the prefix is, or beside the programs.
            self.env = {**db.cluster.env(), "PATH": f"{self.place}/bin:{os.environ['PATH']}", "LD_LIBRARY_PATH": self.place + "/lib",
                        "PKG_CONFIG_PATH": self.place + "/lib/pkgconfig", "DEFERRED_PLUGIN_DIR": self.place + "/lib/deferred/plugins", "DEFERRED_CONFIG": self.root + "/etc/deferred/deferred.conf",
                        "DEFERRED_PIDFILE": self.root + "/pid", "DEFERRED_ALLOW_ROOT": "", "MAKEFLAGS": "", "MAKELEVEL": ""}
            self.ahead = f"""make() {{ [ "$*" != install ] || {{ command make -s -C {pg.TOP} install DESTDIR={self.root} && ln -s {self.place}/libexec/deferred/* {self.place}/bin; }}; }}
                ldconfig() {{ :; }}
                useradd() {{ [ "$*" = "--system --create-home -d /var/lib/deferred deferred" ]; }}
                pkg-config() {{ command pkg-config --define-variable=prefix={self.place} --define-variable=plugindir={self.place}/lib/deferred/plugins "$@"; }}
                """

        def named(self, text):
            for old, new in self.names:
                text = re.sub(old, new, text)
            return text

        def __call__(self, text, **env):
            return bash(self.ahead + "trap '[ $? = 0 ] || cat deferred.log >&2' EXIT\n" + self.named(text), {**self.env, **env}, self.root)

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


    @pytest.mark.slow
    def test_for_good(typist):
        """Installed, set up, and its jobs run by the lines of cron; with a plugin and a command, deferred from the shell and from C."""
        t, db = typist, typist.db
        db.sql(f"create role {t.web} login")
        t(block("make install"))
        t(block("createdb app"))
        config = block("password_file").replace('user = "deferred"', 'user = "nobody"') + block("sha256sum") + block("logger") + 'function "fail" { command = {"/bin/false"} }'
        t.write("etc/deferred/deferred.conf", config, "a")
        t.write("greetings.c", block("#include <deferred_plugin.h>"))
        t(block("-shared"))
        include, rest = block("if (defer(").split("\n", 1)
        t.write("app.c", f"#include <stdio.h>\n{include}\nint main(void)\n{{\n{rest}return 0;\n}}\n")
        # The line is in README's text.
        compile_it, = re.findall(r"(?m)^From C \(`(.*?)`\);", read("README.md"))
        t(compile_it.replace("cc app.c", "cc -Wall -Wextra -Werror -o app app.c"))
        assert t(block("schedule set weekly") + "deferred schedule rm weekly", PGUSER=t.web).stdout.startswith("weekly added\n")
        said = t("./app\n" + block("--key hello-ann"), PGUSER=t.web)
        assert said.stderr == "" and said.stdout.split() == ["2", "3", "4"]

        lines = re.findall(r"(?m)^\S+ \S+ \S+ \S+ \S+ +root +(.*)", block("*/2 * * * *"))
        assert len(lines) == 2
        options = re.findall(r"(?m)^\| [^|]* \| `check_deferred ?([^`]*)`", read("README.md"))
        assert len(options) == 4 and options[0] == ""
        for given in sorted(options, key=lambda o: "--cnt 0" in o):  # those last that leave none
            t("deferred add checksum '{}'", PGUSER=t.web)
            t(lines[0].replace("check_deferred ", f"check_deferred {given} {'--cnt 1' if '--loop' in given else ''} "), PGUSER=t.cron)
        t(lines[1], PGUSER=t.cron)
        with open(t.root + "/deferred.log") as log:
            log = log.read()
        assert "warning" not in log and "error" not in log, log
        # What was deferred for 5 seconds may be due by now.
        rows = t("psql app -XAtc 'select d.fn, l.outcome, l.result, count(*) from deferred.__deferred_log l join deferred.__deferred d on d.id = l.job_id"
                 " group by 1, 2, 3 order by 1'").stdout
        assert re.sub(r"hello\|3$", "hello|2", rows.strip()) == "checksum|ok|44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a  -|4\nhello|ok|hello|2", (rows, log)

        # Dead jobs are handed to what is named; a logger that shows what it is handed.
        t.write("usr/local/bin/logger", "#!/bin/sh\nexec cat\n")
        os.chmod(t.place + "/bin/logger", 0o755)
        t(block("--on-dead"), PGUSER=t.cron)
        died = t("deferred add fail '{\"n\": 1}' --max-attempts 1", PGUSER=t.web).stdout.split()[-1]
        t(lines[0], PGUSER=t.cron)
        t(lines[0], PGUSER=t.cron)
        told = json.loads(t("psql app -XAtc \"select l.result from deferred.__deferred_log l join deferred.__deferred d on d.id = l.job_id where d.fn = 'bury'\"").stdout)
        assert (told["job"], told["fn"], told["outcome"], told["params"]) == (int(died), "fail", "failed", {"n": 1})
