"""What limits cost: jobs a second without any, beside limits that are about others, and under limits."""

import json

TITLE = "Executing under limits"
BATCH = 5000
DEFER = (
    "select count(*) from deferred.defer_many((select json_agg(json_build_object('fn', 'noop', %s)) "
    "from generate_series(%%s + 1, %%s) i))"
)
# What the jobs have. Each claim gets few of the FEW: fewer jobs do.
WAYS = {
    "no limits": "'queue', 'default'",
    "limits elsewhere": "'queue', 'default'",
    "a queue of 1,000 at once": "'queue', 'default'",
    "a queue of 4 at once": "'queue', 'default'",
    "a queue of 1,000,000 a second": "'queue', 'default'",
    "a function of 1,000 at once": "'queue', 'default'",
    "1,000 keys": "'concurrency_key', 'key ' || i %% 1000",
    "a key for each job": "'concurrency_key', 'key ' || i",
}
FEW = ("a queue of 4 at once",)
AIMS = {"limits elsewhere": 0.95, "1,000 keys": 0.5}


def restrict(db, name):
    def queue(queue, **settings):
        db.sql("select deferred.__queue_set(%s, %s::json, true)", queue, json.dumps(settings))

    def function(fn, **settings):
        db.sql("select deferred.__function_set(%s, %s::json)", fn, json.dumps(settings))

    if name == "limits elsewhere":  # of a queue and a function that have jobs which are not due
        queue("elsewhere", max_running=2)
        function("other", rate=1)
        db.sql(
            "select count(*) from deferred.defer_many((select json_agg(json_build_object('fn', 'noop', 'queue', "
            "'elsewhere', 'delay', '1d'))"
            " from generate_series(1, 1000)))"
        )
    elif name == "a queue of 1,000 at once":
        queue("default", max_running=1000)
    elif name == "a queue of 4 at once":
        queue("default", max_running=4)
    elif name == "a queue of 1,000,000 a second":
        queue("default", rate=1e6, burst=1000000)
    elif name == "a function of 1,000 at once":
        function("noop", max_running=1000)


def run(b):
    many = b.size(50000, 5000)
    with b.database() as db:

        def measure(name):
            jobs = many // 10 if name in FEW else many

            def way():
                db.clear()
                db.sql("truncate deferred.__deferred_limit, deferred.__deferred_limited, deferred.__deferred_function")
                db.sql("delete from deferred.__deferred_queue where name <> 'default'")
                db.sql("update deferred.__deferred_queue set max_running = null, rate = null, burst = null")
                restrict(db, name)
                for first in range(0, jobs, BATCH):
                    db.sql(DEFER % WAYS[name], first, min(first + BATCH, jobs))
                db.settle()
                seconds, left = 0, jobs
                while left:  # a run ends when nothing can be claimed
                    seconds += db.work(b.best["processes"], cnt=0, queue="default")
                    left = db.one("select count(*) from deferred.__deferred_hot where queue = 'default'")
                return jobs / seconds

            return way

        f = b.in_turns({name: measure(name) for name in WAYS})
    for name, value in f.items():
        b.report.row(
            f"{many // 10 if name in FEW else many:,} jobs, {name}",
            value,
            "jobs/s",
            f["no limits"] if name != "no limits" else None,
            least=AIMS.get(name),
        )
