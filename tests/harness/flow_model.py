"""Random flows, in the database and in a model of what must become of them.

Parents are older, so the model goes through the jobs in order: one that waits for an end that
cannot come any more is skipped, any other has its fate; a callback is run if no job of the flow
failed, or if one did, or in any case. Where the first failure has the rest cancelled, whom it finds
depends on what happens, but only where one failed, and only who is not to be spared."""

import json

CONDITIONS = ("ok", "ok", "ok", "failed", "ended")
FATES = ("ok", "ok", "ok", "failed", "cancel", "expired")
MET = {"ok": ("ok",), "failed": ("failed",), "ended": ("ok", "failed", "skipped")}


class Flow:
    """One in the database and in the model. parents[n] are (job, condition) of job n. call: what of
    a fate that is drawn for it; opened: share of flows that are opened and closed, and so have
    their callbacks wait for all of it by other means, with the same ends. Some jobs wait for events
    as well. Each event is sent, or its time passes and the job runs, so no end depends on events.
    """

    def __init__(self, db, rng, call=lambda fate: {"fn": "a"}, fates=FATES, opened=0.4):
        n = rng.randint(1, 14)
        self.events, self.unsent = [], []
        self.fates = [rng.choice(fates) for _ in range(n)]
        self.parents = [
            [(p, rng.choice(CONDITIONS)) for p in rng.sample(range(i), rng.randint(0, min(i, 3)))] for i in range(n)
        ]
        callbacks = [rng.choice(("ok", "failed", "ended")) for _ in range(rng.randint(0, 3))]
        self.fates += [rng.choice(fates) for _ in callbacks]
        outside = []
        flow = {
            "jobs": [
                {
                    **call(self.fates[i]),
                    "name": f"n{i}",
                    "after": [{"job": f"n{p}", "on": on} for p, on in above],
                    **self.awaited(db, rng),
                }
                for i, above in enumerate(self.parents)
            ],
            "then": [{**call(fate), "on": on} for fate, on in zip(self.fates[n:], callbacks)],
        }
        self.cancels = rng.random() < 0.4
        if self.cancels:
            flow["on_failure"] = "cancel"
        self.spared = [any(on != "ok" for _, on in above) for above in self.parents]
        opened = rng.random() < opened
        self.id = db.one(f"select deferred.{'flow_open' if opened else 'defer_flow'}(%s)", json.dumps(flow))
        if opened:
            db.sql("select deferred.flow_close(%s)", self.id)
        self.jobs = [row[0] for row in db.sql("select id from deferred.flow_jobs(%s)", self.id)]
        self.parents += [[(p, f"flow {on}") for p in range(n)] for on in callbacks]
        for _ in range(rng.randint(0, 2)):
            above = [
                (p, rng.choice(CONDITIONS))
                for p in rng.sample(range(len(self.jobs)), rng.randint(1, min(3, len(self.jobs))))
            ]
            outside.append(above)
            self.fates.append(rng.choice(fates))
            of = call(self.fates[-1])
            self.jobs.append(
                db.defer(
                    of.pop("fn"),
                    json.dumps(of.pop("params", {})),
                    after=[{"job": self.jobs[p], "on": on} for p, on in above],
                    **self.awaited(db, rng),
                    **of,
                )
            )
        self.parents += outside

    def awaited(self, db, rng):
        """Options of a job: perhaps an event, which may have come before."""
        if rng.random() < 0.7:
            return {}
        name = f"{id(self)} {len(self.events)}"
        limit = rng.choice(({}, {"within": "1h", "on_timeout": "run"}))
        self.events.append(name)
        if rng.random() < 0.3:
            db.sql("select deferred.send_event(%s)", name)
        else:
            self.unsent.append((name, limit))
        return {"wait_for": {"event": name, **limit}}

    def pass_on(self, db, rng):
        """One of the events is sent, or its time is up. False: none is left."""
        if not self.unsent:
            return False
        name, limit = self.unsent.pop(rng.randrange(len(self.unsent)))
        if limit and rng.random() < 0.5:
            db.sql("update deferred.__deferred_awaited set until = clock_timestamp() where name = %s", name)
        else:
            db.sql("select deferred.send_event(%s)", name)
        return True

    def stopped(self, db):
        """Who was cancelled because another one failed."""
        failed = db.one("select failed from deferred.__deferred_flow where id = %s", self.id)
        jobs = [
            row[0]
            for row in db.sql(
                "select job_id from deferred.__deferred_log where job_id = any (%s) "
                "and error = format('cancelled: job %%s of its flow failed', %s::bigint)",
                self.jobs,
                failed,
            )
        ]
        return {self.jobs.index(job) for job in jobs}

    def check(self, db, ends):
        """That of a flow with on_failure which the model does not draw."""
        stopped = self.stopped(db)
        assert all(n < len(self.spared) and not self.spared[n] for n in stopped) and (self.cancels or not stopped)
        failed = db.one("select failed from deferred.__deferred_flow where id = %s", self.id)
        assert (failed is not None) == (self.cancels and "failed" in ends[: len(self.spared)])
        assert failed is None or (ends[self.jobs.index(failed)] == "failed" and self.jobs.index(failed) not in stopped)

    def expected(self, stopped=()):
        ends = []
        for above, fate in zip(self.parents, self.fates):
            if len(ends) in stopped:
                ends.append("failed")
                continue
            failed = any(ends[p] == "failed" for p, _ in above)
            met = (
                {"flow ok": not failed, "flow failed": failed, "flow ended": True}[above[0][1]]
                if above and above[0][1] not in MET
                else all(ends[p] in MET[on] for p, on in above)
            )
            ends.append("skipped" if not met else "ok" if fate == "ok" else "failed")
        return ends

    def seen(self, db):
        return [
            row[0]
            for row in db.sql(
                """
            select case when h.id is not null then 'hot' when l.outcome = 'ok' then 'ok' when l.error like
            'skipped: %%' then 'skipped' else 'failed' end
            from unnest(%s) with ordinality u(id, n) left join deferred.__deferred_hot h using (id)
            left join lateral (select * from deferred.__deferred_log x where x.job_id = u.id and x.final
            order by x.finished_at desc limit 1) l on true
            order by u.n""",
                self.jobs,
            )
        ]
