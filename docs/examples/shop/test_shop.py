"""Tests of the shop. They need a database with deferred and schema.sql, which libpq's variables name."""

import psycopg2
import pytest

import deferred.testing
import order
import shop_tasks  # noqa: F401: offers the functions


@pytest.fixture
def database():
    connection = psycopg2.connect("")
    yield connection
    connection.close()


def deferred_params(connection, fn):
    """Params of the jobs of a function, in order."""
    with connection.cursor() as cursor:
        cursor.execute("select params from deferred.__deferred where fn = %s order by id", (fn,))
        return [row[0] for row in cursor.fetchall()]


def invoice(number):
    return deferred.testing.call("invoice", {"order": number}, settings={"conninfo": ""})


def test_an_order_and_its_job_are_one_transaction(database):
    number = order.place_order(database, "ann@example.org", "teapot")
    assert deferred_params(database, "invoice") == [{"order": number}]
    database.rollback()
    assert deferred_params(database, "invoice") == []


def test_an_invoice_is_written_and_mailed_once(database):
    number = order.place_order(database, "ann@example.org", "teapot")
    database.commit()
    assert invoice(number).data == {"amount": 20}
    assert invoice(number).text == "was written before"
    assert [mail["to"] for mail in deferred_params(database, "send_mail")] == ["ann@example.org"]


def test_an_item_without_a_price_is_not_retried(database):
    number = order.place_order(database, "bob@example.org", "spoon")
    database.commit()
    done = invoice(number)
    assert (done.outcome, done.text) == ("dead", "item 'spoon' has no price")
