"""Functions of the shop in Python."""

import psycopg2

import deferred

PRICES = {"teapot": 20, "cup": 5}


@deferred.function("invoice", timeout="10s", max_attempts=5)
def invoice(params, job):
    """Writes the invoice of an order, and mails it. A second attempt finds the invoice, and does nothing."""
    database = psycopg2.connect(job.setting("conninfo"))
    try:
        with database, database.cursor() as cursor:
            cursor.execute("select customer, item from orders where id = %s", (params["order"],))
            found = cursor.fetchone()
            if found is None:
                raise deferred.Dead(f"order {params['order']} does not exist")
            customer, item = found
            if item not in PRICES:
                raise deferred.Dead(f"item '{item}' has no price")
            cursor.execute(
                "insert into invoices (order_id, amount) values (%s, %s) on conflict do nothing returning amount",
                (params["order"], PRICES[item]),
            )
            if cursor.fetchone() is None:
                return "was written before"
            mail = {"to": customer, "subject": "Your invoice", "text": f"{item}: {PRICES[item]} EUR"}
            deferred.defer(database, "send_mail", mail)
            return {"amount": PRICES[item]}
    finally:
        database.close()
