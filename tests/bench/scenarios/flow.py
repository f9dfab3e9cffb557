"""Jobs that wait for jobs: what those pay that wait for none, and what a long chain and a wide flow take."""

import json

TITLE = "Jobs that wait for jobs"
# What nobody waits for is to cost what it would if nobody was ever told of an end.
NOBODY = (
    "create or replace function deferred.__settle(most integer) returns integer language sql security definer"
    " set search_path = pg_catalog, pg_temp as 'select 0'"
)


def chain(n):
    return {"jobs": [{"name": str(i), "fn": "noop", "after": [str(i - 1)] if i else []} for i in range(n)]}


def fan(n):
    """One for which n wait, and one that waits for all."""
    return {
        "jobs": [{"name": "first", "fn": "noop"}, *({"fn": "noop", "after": ["first"]} for _ in range(n))],
        "then": [{"fn": "noop"}],
    }


def whole(flow):
    return lambda db: db.sql("select deferred.defer_flow(%s)", json.dumps(flow))


def opened(n):
    """One to which n are added, and one that follows when all of them have ended."""

    def store(db):
        flow = db.sql("select deferred.flow_open(%s)", json.dumps({"then": [{"fn": "noop"}]}))[0][0]
        db.sql("select count(*) from deferred.defer_many(%s)", json.dumps([{"fn": "noop", "flow": flow}] * n))
        db.sql("select deferred.flow_close(%s)", flow)

    return store


def run(b):
    some, links, width = b.size(200000, 10000), 100 if b.quick else 1000, b.rows(100000, 1000)
    n = b.best["processes"]
    with b.database("with") as told, b.database("without") as untold:
        untold.sql(NOBODY)

        def execute(db):
            def way():
                db.clear_log()
                db.fill(some - db.ready(), b.say)
                db.settle()
                seconds = db.work(n, cnt=0, batch=b.best["batch"])
                db.expect(some, 0)
                return some / seconds

            return way

        f = b.in_turns({"with": execute(told), "without": execute(untold)})
    b.report.row(
        f"{some:,} jobs without parents, against without the settling of waits",
        f["with"],
        "jobs/s",
        f["without"],
        least=0.98,
    )
    for name, store, jobs in (
        (f"a chain of {links:,}", whole(chain(links)), links),
        (f"a fan-out and fan-in of {width:,}", whole(fan(width)), width + 2),
        (f"{width:,} added to an open flow, and its callback", opened(width), width + 1),
    ):
        with b.database() as db:
            store(db)
            db.settle()
            seconds = 0
            while db.ready():  # a run ends when nothing can be claimed
                seconds += db.work(n, cnt=0, batch=b.best["batch"])
            db.expect(jobs, 0)
        b.report.row(name, jobs / seconds, "jobs/s")
