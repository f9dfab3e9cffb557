"""Programs that claim jobs of the function record by SQL or over the JSON API, and journal them.

A call that fails ends their work on a job: the server or the front went away, or the job is not theirs."""

import contextlib
import threading
import time

import psycopg2

from api_client import Api

LEASE_MS = 5000
CALLS = {
    "step": "select deferred.step(%(id)s, %(receipt)s, %(name)s, to_json(%(value)s))",
    "progress": "select deferred.progress(%(id)s, %(receipt)s, %(done)s, %(total)s)",
    "extend": "select deferred.extend(%(id)s, %(receipt)s, %(lease)s)",
    "snooze": "select deferred.snooze(%(id)s, %(receipt)s, %(delay)s)",
    "fail": "select deferred.fail(%(id)s, %(receipt)s, %(error)s, %(retry_in)s)",
    "finish": "select deferred.finish(%(id)s, %(receipt)s, %(result)s)",
}
CLAIM = (
    "select json_build_object('id', id, 'receipt', receipt, 'params', params, 'attempt', attempt, 'steps', steps) "
    f"from deferred.claim_jobs(null, '{{record}}', 3, {LEASE_MS})"
)


class BySql:
    def __init__(self, db):
        self.session = db.connect(application_name="claimer", connect_timeout=5)
        self.session.autocommit = True

    def ask(self, query, values=None):
        with self.session.cursor() as cursor:
            cursor.execute(query, values)
            return [row[0] for row in cursor.fetchall()]

    def claim(self):
        return self.ask(CLAIM)

    def call(self, verb, job, **body):
        self.ask(CALLS[verb], {"id": job["id"], "receipt": job["receipt"], **body})

    def close(self):
        self.session.close()


class ByApi:
    def __init__(self, server, token):
        self.api = Api(server, token)

    def post(self, path, body):
        try:
            got = self.api.call("POST", path, body)
        except AssertionError as error:
            raise ConnectionError("half an answer") from error
        if got is None or got.status >= 500 or got.status == 409:
            raise ConnectionError(str(got))
        assert got.status == 200, got
        return got.json

    def claim(self):
        return self.post("/v1/claim", {"functions": ["record"], "max": 3, "lease": f"{LEASE_MS}ms"})["jobs"]

    def call(self, verb, job, **body):
        spans = {k: f"{v}ms" for k, v in body.items() if k in ("lease", "delay", "retry_in")}
        self.post(f"/v1/jobs/{job['id']}/{verb}", {"receipt": job["receipt"], **body, **spans})

    def close(self):
        self.api.close()


class Claimer(threading.Thread):
    """connect() returns one of the above. Those of a scenario share saved, the jobs whose step was answered, and wrong,
    what must not be."""

    def __init__(self, connect, rng, saved, wrong):
        super().__init__()
        self.connect, self.rng, self.saved, self.wrong, self.verbs = connect, rng, saved, wrong, set()
        self.stopped = threading.Event()

    def run(self):
        way = None
        while not self.stopped.is_set() and not self.wrong:
            try:
                way = way or self.connect()
                for job in way.claim():
                    self.work(way, job)
            except AssertionError as error:
                self.wrong.append(str(error))
            except (psycopg2.Error, OSError, ValueError) as error:
                if (getattr(error, "pgcode", None) or "57")[:2] not in ("57", "08", "55", "40"):
                    self.wrong.append(str(error))
                with contextlib.suppress(Exception):
                    way.close()
                way = None
            time.sleep(0.02)
        if way:
            way.close()

    def work(self, way, job):
        def call(verb, **body):
            way.call(verb, job, **body)
            self.verbs.add(verb)

        def append(what):
            line = f"{what} {job['id']} {job['attempt']} {threading.get_native_id()} {int(time.monotonic() * 1000)}\n"
            with open(job["params"]["file"], "ab", buffering=0) as f:
                f.write(line.encode())

        append("start")
        steps = job["steps"] or {}
        assert job["id"] not in self.saved or steps == {"half": job["id"]}, f"job {job['id']} has lost its step"
        drawn = self.rng.random()
        if not steps:
            call("step", name="half", value=job["id"])
            self.saved.add(job["id"])
        if drawn < 0.15:
            return call("snooze", delay=50)
        call("progress", done=1, total=2)
        call("extend", lease=LEASE_MS)
        time.sleep(job["params"]["ms"] / 1000)
        if drawn < 0.3:
            return call("fail", error="drawn", retry_in=20)
        append("end")
        call("finish", result="done")

    def stop(self):
        self.stopped.set()
        self.join(60)
