"""The examples of deferred.3, and those of the README for clients over HTTP, compile and run."""

import os
import re
import sys
import textwrap

import front
import pg
from harness import BUILD, SAN, run


def examples():
    with open(os.path.join(pg.TOP, "lib", "deferred.3"), encoding="utf-8") as f:
        text = f.read()
    text = text[text.index(".Sh EXAMPLES"):text.index(".Sh ERRORS")]
    blocks = [b.replace("\\e", "\\") for b in re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", text, re.M | re.S)]
    return [b for b in blocks if "#include" in b], [b for b in blocks if "#include" not in b]


def test_the_c_examples_compile_without_a_warning(tmp_path):
    for number, text in enumerate(examples()[0]):
        path = tmp_path / f"{number}.c"
        path.write_text(text)
        done = run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I" + os.path.join(pg.TOP, "lib", "include"),
                    "-I/usr/include/postgresql", path])
        assert done.returncode == 0, done.stderr
    assert number == 3


def test_the_sql_examples_run(db):
    db.sql("create table orders (id bigint generated always as identity, mail text)")
    for text in examples()[1]:
        db.sql(text)
    db.sql("insert into orders (mail) values ('b@example.org')")
    assert db.sql("select fn, queue, params->>'to' from deferred.__deferred order by id") == [
        ("send_mail", "mail", "a@example.org"), ("rebuild_index", "default", None),
        ("send_mail", "mail", "a@example.org"), ("send_mail", "default", "b@example.org")]


def test_what_make_pg_prints_is_all_that_the_steps_of_the_readme_need(tmp_path):
    """A fresh checkout has no /etc/deferred."""
    def kept(call):
        text = f"import pg; pg.KEPT = {str(tmp_path / 'pg')!r}; pg.PLACE = pg.KEPT + '/place'; pg.{call}()"
        done = run([sys.executable, "-B", "-c", text], cwd=os.path.join(pg.TOP, "tests", "harness"))
        assert done.returncode == 0, done.stderr
        return dict(re.findall(r"(?m)^export (\w+)='?(.*?)'?$", done.stdout))

    env = kept("keep")
    try:
        for step in (["deferred", "add", "echo", "{}"], ["check_deferred"], ["deferred", "account", "add", "acme"], ["deferred", "account", "allow", "acme", "echo"]):
            done = run(step, env=env)
            assert done.returncode == 0, done
        assert (tmp_path / "pg" / "http.key").stat().st_mode & 0o777 == 0o600
    finally:
        kept("stop_kept")


def over_http():
    """The indented blocks of the README's section."""
    with open(os.path.join(pg.TOP, "README.md"), encoding="utf-8") as f:
        text = f.read()
    text = text[text.index("### Over HTTP\n"):]
    text = text[:text.index("\n##", 5)]
    return [textwrap.dedent(b) for b in re.findall(r"(?m)(?:^ {4}.*\n|^\n(?= {4}))+", text)]


def test_the_examples_over_http_put_from_node_and_consume_what_c_and_sql_deferred(db, tmp_path):
    shell, put, deferred, consume = over_http()
    sql, c = deferred.split(";\n", 1)
    f = front.Front(db)
    command = re.search(r"(?m)^deferred account add .*?(?=\s+#)", shell)[0].replace("10001", str(f.port)).split()
    said = db.run(command).stdout
    assert db.run(re.search(r"(?m)^deferred account allow .*?(?=\s+#)", shell)[0].split()).returncode == 0
    env = {"QUEUES": re.search(r"connection string: (.*)", said)[1]}
    scripts = front.Node(db)

    def node(text):
        path = os.path.join(scripts.folder, f"{os.path.basename(db.dir)}.mjs")
        try:
            with open(path, "w", encoding="utf-8") as script:
                script.write(text)
            done = db.run([scripts.NODE, path], env=env)
        finally:
            os.unlink(path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    node(put)
    assert db.run(["check_deferred"]).returncode == 0
    assert db.sql("select d.queue, d.fn, l.outcome, l.result from deferred.__deferred_log l join deferred.__deferred d on d.id = l.job_id") == [
        ("acme.greetings", "echo", "ok", '{"hello":"from Node"}')]

    assert node(consume) == ""
    db.sql(sql)
    path = tmp_path / "defer.c"
    path.write_text("#include <deferred.h>\n#include <libpq-fe.h>\nint main(int argc, char **argv)\n{\nPGconn *conn = PQconnectdb(argv[argc - 1]);\n"
                    "struct deferred_error err = { 0 };\nint64_t id = 0;\n" + c + "PQfinish(conn);\nreturn id > 0 ? 0 : 1;\n}\n")
    sanitize = ["-fsanitize=address,undefined"] if SAN else []
    done = run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", *sanitize, "-I" + os.path.join(pg.TOP, "lib", "include"), "-I/usr/include/postgresql",
                path, "-o", tmp_path / "defer", os.path.join(BUILD, "lib", "libdeferred.a"), "-lpq", "-ljansson", "-lconfuse", "-ldl", "-lpthread"])
    assert done.returncode == 0, done.stderr
    done = db.run([tmp_path / "defer", db.conninfo])
    assert done.returncode == 0, done.stderr
    assert node(consume).splitlines() == ['{"order": 17} 1', '{"order": 18} 1']
    assert node(consume) == "" and db.hot() == 0
    assert {outcome for _, _, outcome in db.log()} == {"ok"} and len(db.log()) == 3
