"""deferred_sql(3) describes the functions that there are, and its examples run."""

import re

import psycopg2
import pytest

from documents import literal, read
from harness import SAN

__test__ = not SAN
PAGE = read("lib", "deferred_sql.3")
BLOCKS = literal(PAGE)


def test_each_public_function_is_described_with_its_arguments(db):
    there = db.sql(
        "select proname, array_to_string(proargnames[1:pronargs], ',') from pg_proc"
        " where pronamespace = 'deferred'::regnamespace and proname !~ '^__'"
    )
    described = set()
    for name, arguments in re.findall(r"(?ms)^deferred\.(\w+)\((.*?)\)(?= returns|\n +returns)", PAGE):
        words = [a.strip().split()[0].strip('"') for a in re.split(r",", arguments) if a.strip()]
        described.add((name, ",".join(words)))
    assert {(name, arguments or "") for name, arguments in there} == described


def test_the_columns_of_my_job_are_listed(db):
    columns = [
        name
        for name, in db.sql(
            "select attname from pg_attribute where attrelid = 'deferred.my_job'::regclass and attnum > 0 "
            "order by attnum"
        )
    ]
    (listed,) = [b for b in BLOCKS if "progress_total" in b]
    assert re.split(r",\s*", listed.strip()) == columns


def test_the_options_are_those_that_defer_takes(db):
    """The hint about an unknown option lists them all."""
    section = PAGE[PAGE.index(".Sh OPTIONS") : PAGE.index(".Sh JOBS")]
    described = {o for line in re.findall(r"(?m)^\.It (.*)", section) for o in re.findall(r"\w+", line)}
    with pytest.raises(psycopg2.Error) as refused:
        db.sql("select deferred.defer('hello', '{}', '{\"nosuch\": 1}')")
    assert described == set(re.findall(r"\w+", refused.value.diag.message_hint.partition(":")[2]))


@pytest.mark.parametrize("number", [n for n, b in enumerate(BLOCKS) if b.startswith("select")])
def test_an_example_runs(db, number):
    job = db.defer("hello")
    assert job == 1
    db.sql(BLOCKS[number])
