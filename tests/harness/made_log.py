"""A history made up: jobs that arrived at random, when each began and ended, and runs of workers.
A test that writes jobs is marked `by_hand`."""


def write_log(db, jobs, queue="default", now="now()"):
    """The log of jobs, each (seconds before now it was ready, wait, run time), with the sums of it."""
    db.sql(
        f"""
        with job as (
            select nextval('deferred.__deferred_id_seq') as id, {now} - r * interval '1 second' as ready, w, x
            from unnest(%(ready)s::float8[], %(wait)s::float8[], %(run)s::float8[]) j(r, w, x)),
        call as (
            insert into deferred.__deferred (id, queue, fn, params, created_at) select id, %(queue)s, 'sleep',
            '{{}}', ready from job)
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at,
        wait_us, run_us, user_us, sys_us)
        select id, 1, 'ok', true, ready + w * interval '1 second', ready + (w + x) * interval '1 second',
        w * 1e6, x * 1e6, x * 1e5, 0 from job""",
        {"queue": queue, "ready": [j[0] for j in jobs], "wait": [j[1] for j in jobs], "run": [j[2] for j in jobs]},
    )


def arrivals(rng, a_minute, seconds, burst=1):
    at = []
    t = rng.expovariate(a_minute / 60 / burst)
    while t < seconds:
        at += [t] * burst
        t += rng.expovariate(a_minute / 60 / burst)
    return at


def history(rng, a_minute, run, days, burst=1):
    return [(days * 86400 + 60 - t, 10.0, run(rng)) for t in arrivals(rng, a_minute, days * 86400, burst)]


def starts(db, host, pidfile, ago_min, until_min, every_s=60, mode="run", queues=None):
    """Runs that had work, each some seconds long; or one service, that said all the time that it lives."""
    name = f"{host}:{pidfile}#1.1@{host}"
    values = {"name": name, "host": host, "mode": mode, "queues": queues}
    values.update(ago=ago_min, until=until_min, every=every_s)
    if mode != "run":
        db.sql(
            """
            insert into deferred.__deferred_worker (instance, host, pid, version, started_at, seen_at, mode)
            values (%(name)s, %(host)s, 1, '1', now() - %(ago)s * interval '1 min',
                    now() - %(until)s * interval '1 min', %(mode)s)""",
            values,
        )
        return
    db.sql(
        """
        insert into deferred.__deferred_worker (instance, host, pid, version, started_at, seen_at, ended_at,
        mode, queues)
        select %(name)s, %(host)s, 1, '1', t, t, t + interval '5 s', 'run', %(queues)s
        from generate_series(now() - %(ago)s * interval '1 min', now() - %(until)s * interval '1 min' - interval '1 s',
                             %(every)s * interval '1 s') t
        order by t""",
        values,
    )
