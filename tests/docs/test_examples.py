"""The examples of man pages compile and run; those of deferred_functions(7) are in tests/plugins,
those of deferred(7) in test_overview.py."""

import os
import re

import front
import pg
from documents import literal, read, section
from harness import BUILD, SAN, run


def examples():
    blocks = literal(section(read("lib", "deferred.3"), "EXAMPLES"))
    return [b for b in blocks if "#include" in b], [b for b in blocks if "#include" not in b]


def test_the_c_examples_compile_without_a_warning(tmp_path):
    for number, text in enumerate(examples()[0]):
        path = tmp_path / f"{number}.c"
        path.write_text(text)
        done = run(
            [
                "cc",
                "-std=c11",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-fsyntax-only",
                "-I" + os.path.join(pg.TOP, "lib", "include"),
                "-I/usr/include/postgresql",
                path,
            ]
        )
        assert done.returncode == 0, done.stderr
    assert number == 4


def test_the_sql_examples_run(db):
    db.sql("create table orders (id bigint generated always as identity, mail text)")
    for text in examples()[1]:
        db.sql(text)
    db.sql("insert into orders (mail) values ('b@example.org')")
    assert db.sql("select fn, queue, params->>'to' from deferred.__deferred order by id") == [
        ("send_mail", "mail", "a@example.org"),
        ("rebuild_index", "default", None),
        ("send_mail", "mail", "a@example.org"),
        ("send_mail", "default", "b@example.org"),
    ]


def test_the_examples_over_http_put_from_node_and_consume_what_c_and_sql_deferred(db, tmp_path):
    shell, put, sql, c, consume = literal(section(read("bin", "deferred_http", "deferred_http.8"), "EXAMPLES"))
    f = front.Front(db)
    add, allow = re.findall(r"(?m)^deferred account .*", shell)
    said = db.run(add.replace("10001", str(f.port)).split()).stdout
    assert db.run(allow.split()).returncode == 0
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
    assert db.sql(
        "select d.queue, d.fn, l.outcome, l.result from deferred.__deferred_log l join deferred.__deferred d "
        "on d.id = l.job_id"
    ) == [("acme.greetings", "echo", "ok", '{"hello":"from Node"}')]

    assert node(consume) == ""
    db.sql(sql)
    path = tmp_path / "defer.c"
    path.write_text(
        "#include <deferred.h>\n#include <libpq-fe.h>\nint main(int argc, char **argv)\n{\nPGconn *conn = "
        "PQconnectdb(argv[argc - 1]);\n"
        "struct deferred_error err = { 0 };\nint64_t id = 0;\n" + c + "PQfinish(conn);\nreturn id > 0 ? 0 : 1;\n}\n"
    )
    sanitize = ["-fsanitize=address,undefined"] if SAN else []
    done = run(
        [
            "cc",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            *sanitize,
            "-I" + os.path.join(pg.TOP, "lib", "include"),
            "-I/usr/include/postgresql",
            path,
            "-o",
            tmp_path / "defer",
            os.path.join(BUILD, "lib", "libdeferred.a"),
            "-lpq",
            "-ljansson",
            "-ldl",
            "-lpthread",
        ]
    )
    assert done.returncode == 0, done.stderr
    done = db.run([tmp_path / "defer", db.conninfo])
    assert done.returncode == 0, done.stderr
    assert node(consume).splitlines() == ['{"order": 17} 1', '{"order": 18} 1']
    assert node(consume) == "" and db.hot() == 0
    assert {outcome for _, _, outcome in db.log()} == {"ok"} and len(db.log()) == 3
