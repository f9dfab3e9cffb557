"""The examples of deferred.3 compile and run."""

import os
import re

import pg
from harness import run


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
        ("send_mail", "mail", "a@example.org"), ("rebuild_index", "default", None), ("send_mail", "default", "b@example.org")]
