"""deferred_web on a port of its own, and four people with logins. Their roles are the cluster's, so
they are made once."""

import base64
import contextlib
import http.client
import os
import re
import signal
import urllib.parse

import pytest

import harness

PEOPLE = {"vic": "deferred_viewer", "rea": "deferred_reader", "opal": "deferred_operator", "nob": None}
PASSWORD = "s:cret 1"


class Web:
    PASSWORD = PASSWORD  # a test imports no conftest: there are several of that name

    def __init__(self, db, config="", options=()):
        self.db = db
        self.conf = os.path.join(db.dir, "web.conf")
        with open(self.conf, "w") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(f"web {{\n{config}\n}}\n")
        self.program = db.spawn(["deferred_web", "--listen", "127.0.0.1:0", "--config", self.conf, *options])
        said = harness.wait_for(
            lambda: re.search(r"listening on \S+:(\d+), HTTP$", self.program.output(), re.M)
            or not self.program.alive(),
            what="a listening deferred_web",
        )
        assert said is not True, self.program.output()
        self.port = int(said[1])
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def ask(self, path, who="opal", method="GET", form=None, password=PASSWORD, **headers):
        """Status, headers and text of an answer. Headers by name, with _ for -; None leaves one out."""
        said = {
            "Authorization": "Basic " + base64.b64encode(f"{self.login(who)}:{password}".encode()).decode()
            if who
            else None,
            **(
                {"Origin": f"http://127.0.0.1:{self.port}", "Sec-Fetch-Site": "same-origin"} if method == "POST" else {}
            ),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        body = urllib.parse.urlencode(form) if form is not None else None
        self.connection.request(method, path, body, {name: value for name, value in said.items() if value is not None})
        answer = self.connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()

    def patient(self, path, who="opal"):
        """A busy server has no time for a page now and then. Its reader asks again."""
        return harness.wait_for(lambda: (lambda answer: answer[0] != 503 and answer)(self.ask(path, who)), 60, path)

    def page(self, path, who="opal"):
        status, _, text = self.patient(path, who)
        assert status == 200, (path, status, text)
        return text

    def step(self, path, fields):
        """The answer to a form that is sent again where there was no time for it: nothing was done then."""
        return harness.wait_for(
            lambda: (lambda answer: answer[0] != 503 and answer)(self.ask(path, "opal", "POST", fields)), 60, path
        )

    def json(self, path, who="opal"):
        return harness.json_once(self.page(path, who))

    def token(self, path, who="opal"):
        return re.search(r'name="token" value="(\w+)"', self.page(path, who))[1]

    def stop(self):
        self.connection.close()
        self.program.signal(signal.SIGTERM)
        assert self.program.wait(30) == 0, self.program.output()

    @staticmethod
    def login(who):
        return f"{who}_{os.getpid()}" if who in PEOPLE else who


@pytest.fixture(scope="session")
def people(admin):
    admin.execute("select 1 from pg_roles where rolname = 'password_people'")
    if not admin.fetchall():
        with contextlib.suppress(Exception):  # another process may make it in the same moment
            admin.execute("create role password_people")
    for who, role in PEOPLE.items():
        admin.execute(
            f"create role {Web.login(who)} login password '{PASSWORD}' in role "
            f"{', '.join(filter(None, ['password_people', role]))}"
        )
    yield
    for who in PEOPLE:
        admin.execute(f"drop role {Web.login(who)}")


@pytest.fixture
def start_web(db, people):
    """A function that starts one; each has to end well, which under the sanitizers means that nothing was found."""
    started = []

    def start(*args):
        started.append(Web(db, *args))
        return started[-1]

    start.started = started
    yield start
    for web in started:
        web.stop()


@pytest.fixture
def start_web_on(people):
    """The same for any database. The test stops what it starts."""
    return Web


@pytest.fixture
def web(start_web):
    return start_web()
