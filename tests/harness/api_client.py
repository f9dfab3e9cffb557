"""A client of the JSON API of deferred_http, with a token."""

import json

import front


def add_token(db, name, *options):
    """The text of a new token."""
    done = db.run(["deferred", "token", "add", name, *options, "--json"])
    assert done.returncode == 0, done
    return json.loads(done.stdout)["secret"]


class Api:
    """One connection, which is kept. Each call returns the answer, with `json`: the value of its body, None: none."""

    def __init__(self, server, token):
        self.server, self.token = server, token
        self.connection = None

    def bytes(self, method, path, body=None, headers=(), kind="application/json", token=None):
        """The request as it goes over the wire. Body: bytes and text go as they are, other values as JSON."""
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body, ensure_ascii=False)
        data = body.encode() if isinstance(body, str) else body or b""
        sent = [("Host", f"127.0.0.1:{self.server.port}")]
        if token is None:
            token = self.token
        if token:
            sent.append(("Authorization", f"Bearer {token}"))
        if body is not None:
            sent += [("Content-Type", kind), ("Content-Length", str(len(data)))]
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in [*sent, *headers]) + "\r\n"
        return head.encode("latin-1") + data

    def send(self, *args, **kw):
        if self.connection is None:
            self.connection = front.Connection(self.server, timeout=90)
        self.connection.send(self.bytes(*args, **kw))

    def answer(self, head=False):
        got = self.connection.answer(head=head)
        if got is None or got.header("connection") == "close":
            self.close()
        if got is not None:
            got.json = json.loads(got.body) if got.body else None
        return got

    def call(self, method, path, *args, **kw):
        self.send(method, path, *args, **kw)
        return self.answer(head=method == "HEAD")

    def defer(self, fn="echo", **job):
        """The id of a new job."""
        got = self.call("POST", "/v1/jobs", {"fn": fn, **job})
        assert got.status == 201, got
        return got.json["id"]

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None
