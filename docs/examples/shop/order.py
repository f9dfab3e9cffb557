"""Takes an order: order.py CUSTOMER ITEM. libpq's variables, such as PGDATABASE, name the database."""

import sys

import psycopg2

import deferred


def place_order(connection, customer, item):
    """The order and its job are one transaction of the caller: both exist, or neither does."""
    with connection.cursor() as cursor:
        cursor.execute("insert into orders (customer, item) values (%s, %s) returning id", (customer, item))
        order = cursor.fetchone()[0]
    deferred.defer(connection, "invoice", {"order": order}, {"label": f"order {order}"})
    return order


if __name__ == "__main__":
    with psycopg2.connect("") as database:
        print(place_order(database, *sys.argv[1:]))
