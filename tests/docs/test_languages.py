"""Types what how-to pages show in each language: send-mail.md, and the tests in Node and C of test-your-code.md."""

import os
import re
import shlex

import pytest

import front
import harness
import pg
from documents import read

LINES = dict(re.findall(r"(?m)^\| ([^|`]+?) \| `(.*?)` \|$", read("docs", "how-to", "send-mail.md")))
MAIL = ("ann@example.org", "Thank you", "We are packing.")
# A program around the line of a language.
AROUND = {
    "PHP (PDO)": ("php", "<?php [$to, $subject, $text] = array_slice($argv, 1); $db = new PDO('pgsql:');\n{};\n"),
    "PHP (pgsql)": ("php", "<?php [$to, $subject, $text] = array_slice($argv, 1); $db = pg_connect('');\n{};\n"),
    "Python": (
        "/usr/bin/python3",
        "import sys, psycopg2\nto, subject, text = sys.argv[1:]\n"
        "with psycopg2.connect('') as db, db.cursor() as cursor:\n    {}\n",
    ),
    "Node": (
        front.Node.NODE,
        "import pg from 'pg';\nconst [to, subject, text] = process.argv.slice(2), db = new pg.Client();\n"
        "await db.connect();\n{};\nawait db.end();\n",
    ),
    "Perl": (
        "/usr/bin/perl",
        "use strict; use warnings; use DBI;\nmy ($to, $subject, $text) = @ARGV;\n"
        "my $db = DBI->connect('dbi:Pg:', '', '', { RaiseError => 1 });\n{};\n",
    ),
}
AROUND_C = """#include <deferred.h>
#include <libpq-fe.h>
int main(int argc, char **argv)
{
        const char *to = argv[1], *subject = argv[2], *text = argv[argc - 1];
        PGconn *conn = PQconnectdb("");
        struct deferred_error err;
        int rc = {};
        PQfinish(conn);
        return rc < 0;
}
"""
CC = ["cc", "-Wall", "-Wextra", "-Werror", "-I" + os.path.join(pg.TOP, "lib", "include"), "-I/usr/include/postgresql"]
LIBRARIES = [os.path.join(harness.BUILD, "lib", "libdeferred.a"), "-lpq", "-ljansson", "-ldl", "-lpthread"]

pytestmark = pytest.mark.skipif(harness.SAN, reason="what is typed is tested under the sanitizers elsewhere")


def program(db, interpreter, text, *args):
    """Runs this text. Node looks for modules next to the script."""
    node = interpreter == front.Node.NODE
    path = os.path.join(front.Node(db).folder if node else db.dir, os.path.basename(db.dir) + ".mjs")
    try:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        done = db.run([interpreter, path, *args], env=db.cluster.env(db.name))
    finally:
        os.unlink(path)
    assert done.returncode == 0, (done.stdout, done.stderr)


def compiled(db, text, *args):
    source, made = os.path.join(db.dir, "made.c"), os.path.join(db.dir, "made")
    with open(source, "w", encoding="utf-8") as f:
        f.write(text)
    done = harness.run([*CC, source, "-o", made, *LIBRARIES])
    assert done.returncode == 0, done.stderr
    done = db.run([made, *args], env=db.cluster.env(db.name))
    assert done.returncode == 0, (done.stdout, done.stderr)


def test_each_language_has_its_line():
    assert set(LINES) == {*AROUND, "C", "shell"}


@pytest.mark.parametrize("language", LINES)
def test_a_mail_is_sent_from_each_language(db, language):
    if language == "shell":
        assert db.run(shlex.split(LINES[language])).returncode == 0
    elif language == "C":
        compiled(db, AROUND_C.replace("{}", LINES[language]), *MAIL)
    else:
        interpreter, around = AROUND[language]
        program(db, interpreter, around.replace("{}", LINES[language]), *MAIL)
    ((fn, mail),) = db.sql("select fn, params::jsonb from deferred.__deferred")
    assert fn == "send_mail" and mail["to"] in (MAIL[0], [MAIL[0]], [{"mail": MAIL[0]}])
    assert language == "shell" or (mail["subject"], mail["text"]) == MAIL[1:]


@pytest.mark.parametrize("language", ["js", "c"])
def test_code_that_defers_is_tested(db, language):
    (text,) = re.findall(rf"(?ms)^```{language}\n(.*?)^```$", read("docs", "how-to", "test-your-code.md"))
    text = re.sub(r'(database: "|dbname=)app\b', rf"\g<1>{db.name}", text)
    compiled(db, text) if language == "c" else program(db, front.Node.NODE, text)
    assert db.sql("select count(*) from deferred.__deferred") == [(0,)]
