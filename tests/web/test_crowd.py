"""Nobody keeps others from the pages: by open connections, by many pages at once, by wrong passwords."""

import base64
import concurrent.futures
import contextlib
import http.client
import resource
import socket
import time

import pytest

import harness


def ask(web, path, who, password=None, source="127.0.0.1", **headers):
    """Status and headers of an answer, over a connection of its own."""
    login = base64.b64encode(f"{web.login(who)}:{password or web.PASSWORD}".encode()).decode()
    with contextlib.closing(
        http.client.HTTPConnection("127.0.0.1", web.port, timeout=60, source_address=(source, 0))
    ) as c:
        c.request(
            "GET",
            path,
            headers={"Authorization": "Basic " + login, **{n.replace("_", "-"): v for n, v in headers.items()}},
        )
        answer = c.getresponse()
        answer.read()
        return answer.status, answer.headers


@contextlib.contextmanager
def crowd(n):
    """A pool of threads that all ask at once."""
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        yield pool


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-a: "], ids=["silent", "half a request"])
def test_a_client_that_holds_connections_open_shuts_nobody_out(web, sent):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2048, hard)), hard))
    with contextlib.ExitStack() as stack:
        for i in range(700):
            raw = stack.enter_context(
                contextlib.closing(
                    socket.create_connection(
                        ("127.0.0.1", web.port), timeout=10, source_address=(f"127.0.0.{2 + i % 5}", 0)
                    )
                )
            )
            with contextlib.suppress(OSError):  # an earlier one may be closed for it
                raw.sendall(sent)
        assert [ask(web, "/running", "opal", source=a)[0] for a in ("127.0.0.1", "127.0.0.2", "127.0.0.1")] == [200] * 3


def test_one_address_does_not_have_the_connections_of_others(web):
    with contextlib.ExitStack() as stack:

        def connect(source):
            return stack.enter_context(
                contextlib.closing(
                    socket.create_connection(("127.0.0.1", web.port), timeout=10, source_address=(source, 0))
                )
            )

        other = connect("127.0.0.3")
        many = [connect("127.0.0.2") for _ in range(600)]
        harness.wait_for(lambda: many[343].recv(1) == b"", what="an end of one that waited longest")
        other.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert other.recv(12) == b"HTTP/1.1 401"


def test_a_login_has_a_share_and_who_waits_too_long_is_told(start_web, db):
    web = start_web("db_connections = 2")
    assert ask(web, "/running", "opal")[0] == ask(web, "/running", "vic")[0] == 200
    db.sql(
        """create or replace function deferred.__schedules() returns setof deferred.__deferred_schedule language plpgsql
              as 'begin perform pg_sleep(60); end'"""
    )  # until the page has taken too long
    with crowd(40) as pool:
        began = time.monotonic()
        answers = [pool.submit(ask, web, "/recurring", "vic") for _ in range(40)]
        status, headers = next(concurrent.futures.as_completed(answers)).result()
        assert (status, headers["Retry-After"]) == (503, "10")
        harness.wait_for(lambda: sum(a.done() for a in answers) >= 6, what="answers for which there is no room")
        assert time.monotonic() - began < 10, "before any of them has waited too long"
        waiting = [a for a in answers if not a.done()]
        assert 30 <= len(waiting) <= 34
        for _ in range(3):
            assert ask(web, "/running", "opal")[0] == 200
        assert [a for a in waiting if not a.done()] != []  # a page that waits ends by itself later
        at_work = []
        harness.wait_for(
            lambda: at_work.append(
                db.one(
                    "select count(*) from pg_stat_activity where datname = current_database() "
                    "and wait_event = 'PgSleep'"
                )
            )
            or all(a.done() for a in answers),
            60,
            "all answers",
        )
        assert max(at_work) == 1
        late = [a.result() for a in answers]
        assert {status for status, _ in late} == {503} and {headers["Retry-After"] for _, headers in late} == {"10"}


def test_wrong_passwords_slow_down_and_do_not_lock_out(web, db):
    assert ask(web, "/running", "vic")[0] == 200
    assert [ask(web, "/", "nob", f"wrong {i}")[0] for i in range(6)] == [401] * 6
    assert ask(web, "/running", "rea")[0] == 200  # of the same address, as by a proxy
    assert [ask(web, "/", "vic", f"wrong {i}")[0] for i in range(6)] == [401] * 6
    with crowd(30) as pool:
        answers = [pool.submit(ask, web, "/", "vic", "wrong") for _ in range(30)]
        status, headers = next(concurrent.futures.as_completed(answers)).result()
        harness.wait_for(lambda: any(a.done() and a.result()[0] == 429 for a in answers), what="a try that is refused")
        db.sql("select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = %s", web.login("vic"))
        assert ask(web, "/running", "vic")[0] == 200  # who was in lately logs in again at once
        assert ask(web, "/running", "opal", source="127.0.0.2")[0] == 200
        assert any(not a.done() for a in answers)
        said = [a.result() for a in answers]
    assert {s for s, _ in said} == {401, 429} and {h["Retry-After"] for s, h in said if s == 429} == {"10"}
    assert sum(s == 401 for s, _ in said) <= 12


def test_a_trusted_proxy_tells_clients_apart(start_web, db):
    web = start_web('proxies = "127.0.0.1"')
    assert [ask(web, "/", "vic", f"wrong {i}", X_Forwarded_For="10.0.0.1, 10.0.0.2")[0] for i in range(6)] == [401] * 6
    with crowd(30) as pool:
        answers = [
            pool.submit(ask, web, "/", "vic", "wrong", X_Forwarded_For=f"10.0.0.{i + 3}, 10.0.0.2") for i in range(30)
        ]
        harness.wait_for(lambda: any(a.done() and a.result()[0] == 429 for a in answers), what="a try that is refused")
        assert ask(web, "/", "vic", "wrong", X_Forwarded_For="10.0.0.2, 10.0.0.1")[0] == 401
        assert ask(web, "/running", "vic", X_Forwarded_For="10.0.0.2, 10.0.0.1")[0] == 200
        assert any(not a.done() for a in answers)
