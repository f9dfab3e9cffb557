"""Runs the example application docs/examples/shop: an order, its invoice and mail, the report, and its own tests."""

import os
import re
import shutil

import pytest

import harness
import pg
from mailserver import Smtpd

SHOP = os.path.join(pg.TOP, "docs", "examples", "shop")
LIBRARIES = {
    "PYTHONPATH": os.path.join(pg.TOP, "lib/languages/python"),
    "PERL5LIB": os.path.join(pg.TOP, "lib/languages/perl/lib"),
    "PYTHONDONTWRITEBYTECODE": "1",
}

pytestmark = pytest.mark.skipif(harness.SAN, reason="what is typed is tested under the sanitizers elsewhere")


def read(name):
    with open(os.path.join(SHOP, name), encoding="utf-8") as f:
        return f.read()


@pytest.fixture
def shop(db):
    """The folder with its tables loaded, and the environment in which the files run."""
    folder = os.path.join(db.dir, "shop")
    shutil.copytree(SHOP, folder)
    env = {**db.cluster.env(db.name), **LIBRARIES}
    loaded = db.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", folder + "/schema.sql"], env=env)
    assert loaded.returncode == 0, loaded.stderr
    return folder, env


def test_an_order_becomes_an_invoice_and_a_mail(db, shop, tmp_path):
    folder, env = shop
    server = Smtpd(tmp_path / "mails")
    try:
        text = read("deferred.conf").replace('user = "deferred"\n', "").replace("port = 25 ", f"port = {server.port} ")
        text = text.replace("/srv/shop", folder).replace("dbname=shop", db.conninfo)
        # Programs do not inherit the worker's environment.
        found = ", ".join(f'"{name}={value}"' for name, value in LIBRARIES.items())
        db.config(text.replace('{"/usr/bin/', f'{{"/usr/bin/env", {found}, "/usr/bin/'))
        placed = db.run(["/usr/bin/python3", folder + "/order.py", "ann@example.org", "teapot"], env=env)
        assert placed.returncode == 0, placed.stderr
        db.sql("select deferred.defer('daily_report', '{}')")
        line = re.search(r"check_deferred( --.*?) 2>>", read("crontab"))[1].split()
        for _ in range(2):  # the second run sends the mails that jobs of the first one deferred
            ran = db.run(["check_deferred", *line])
            assert ran.returncode == 0, ran
        assert db.sql("select job_id, outcome, error from deferred.__deferred_log where outcome <> 'ok'") == []
        mails = {server.mail(n)["To"]: server.mail(n).get_content().strip() for n in (1, 2)}
        assert mails["ann@example.org"] == "teapot: 20 EUR"
        assert re.fullmatch(r"[01] invoices, (0|20) EUR", mails["owner@example.org"])
        assert db.sql("select order_id, amount from invoices") == [(int(placed.stdout), 20)]
    finally:
        server.stop()


def test_its_own_tests_pass(db, shop):
    folder, env = shop
    for tests in (["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"], ["prove", "test_report.t"]):
        done = db.run(tests, env=env, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr


def test_its_table_names_each_file():
    named = re.findall(r"`([\w.]+)`", "".join(re.findall(r"(?m)^\| (.*?) \|", read("README.md"))))
    assert sorted([*named, "README.md"]) == sorted(os.listdir(SHOP))


def test_its_schedule_is_stored(db, shop):
    assert db.sql("select name, fn from deferred.__deferred_schedule") == [("nightly_report", "daily_report")]
