"""deferred_http under test, and a client that signs its own requests and can be as wrong as a test wants it to be."""

import base64
import contextlib
import datetime
import hashlib
import hmac
import json
import os
import re
import signal
import socket
import urllib.parse
import xml.etree.ElementTree

import harness
import node
import pg

VERSION = "2021-12-02"
XML = '<?xml version="1.0" encoding="utf-8"?><QueueMessage><MessageText>{}</MessageText></QueueMessage>'


def now(seconds=0):
    return (datetime.datetime.utcnow() + datetime.timedelta(seconds=seconds)).strftime("%a, %d %b %Y %H:%M:%S GMT")


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Answer:
    """Status, headers (a list of pairs, names as they came; header() finds one) and body of one answer."""

    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split(" ")[1])
        self.version = lines[0].split(" ")[0]
        self.headers = [(n, v.strip()) for n, v in (line.split(":", 1) for line in lines[1:])]
        self.body = body

    def header(self, name):
        found = [v for n, v in self.headers if n.lower() == name.lower()]
        assert len(found) <= 1, (name, found)
        return found[0] if found else None

    @property
    def code(self):
        return self.header("x-ms-error-code")

    @property
    def xml(self):
        return xml.etree.ElementTree.fromstring(self.body)

    def messages(self):
        return [{e.tag: e.text or "" for e in m} for m in self.xml.iter("QueueMessage")]

    def __repr__(self):
        return f"<{self.status} {self.code} {self.headers} {self.body[:300]!r}>"


class Connection:
    """One connection. send() takes bytes as they are; answer() reads one answer."""

    def __init__(self, front, timeout=30, tls=None):
        self.socket = socket.create_connection(("127.0.0.1", front.port), timeout)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.buffer = bytearray()  # grows in place: an answer may be of 10 MiB

    def send(self, data):
        self.socket.sendall(data)

    def more(self):
        piece = self.socket.recv(65536)
        self.buffer += piece
        return bool(piece)

    def answer(self, head=False):
        """One answer; None where the server closed the connection before it began."""
        while b"\r\n\r\n" not in self.buffer:
            if not self.more():
                assert self.buffer == b"", self.buffer
                return None
        top, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        got = Answer(top, b"")
        if got.status == 100:
            return got
        chunked = (got.header("transfer-encoding") or "").lower() == "chunked"
        assert not chunked, "not expected of this server"
        length = 0 if head else int(got.header("content-length") or 0)
        while len(self.buffer) < length:
            assert self.more(), (got, self.buffer)
        got.body, self.buffer = bytes(self.buffer[:length]), self.buffer[length:]
        return got

    def closed(self):
        """Waits for the server to close; what else came is an error."""
        try:
            while self.more():
                pass
        except ConnectionResetError:
            pass
        return self.buffer == b""

    def close(self):
        self.socket.close()


class Client:
    """Signs for one account. path is what follows the account: "/queue/messages"."""

    def __init__(self, front, account, key):
        self.front, self.account, self.key = front, account, key
        self.connection = None

    def text_to_sign(self, method, target, headers, lite=False):
        path, _, query = target.partition("?")
        h = {n.lower(): v for n, v in headers}
        own = "".join(f"{n}:{h[n]}\n" for n in sorted(h, key=lambda n: n.replace("_", "!")) if n.startswith("x-ms-"))
        resource = f"/{self.account}{path}"
        params = urllib.parse.parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
        if lite:
            comp = dict(params).get("comp")
            return "\n".join(
                [
                    method,
                    h.get("content-md5", ""),
                    h.get("content-type", ""),
                    "" if "x-ms-date" in h else h.get("date", ""),
                    own + resource + (f"?comp={comp}" if comp is not None else ""),
                ]
            )
        length = h.get("content-length", "")
        lines = [
            method,
            h.get("content-encoding", ""),
            h.get("content-language", ""),
            "" if length == "0" else length,
            h.get("content-md5", ""),
            h.get("content-type", ""),
            "" if "x-ms-date" in h else h.get("date", ""),
            h.get("if-modified-since", ""),
            h.get("if-match", ""),
            h.get("if-none-match", ""),
            h.get("if-unmodified-since", ""),
            h.get("range", ""),
        ]
        for name in sorted({n.lower() for n, _ in params}):
            resource += f"\n{name}:" + ",".join(sorted(v for n, v in params if n.lower() == name))
        return "\n".join(lines) + "\n" + own + resource

    def sign(self, text, key=None):
        return base64.b64encode(
            hmac.new(base64.b64decode(key or self.key), text.encode("latin-1"), hashlib.sha256).digest()
        ).decode()

    def bytes(
        self,
        method,
        path,
        body=None,
        headers=(),
        version=VERSION,
        lite=False,
        key=None,
        date=None,
        account=None,
        host=None,
        expect=False,
        chunked=False,
        scheme=None,
        signed=True,
    ):
        """The request as it goes over the wire."""
        if isinstance(body, str):
            body = body.encode()
        target = path if host else "/" + (account or self.account) + path
        sent = [("Host", host or f"127.0.0.1:{self.front.port}")]
        if date is not False:
            sent.append(("x-ms-date", date or now()))
        if version:
            sent.append(("x-ms-version", version))
        if chunked:
            sent.append(("Transfer-Encoding", "chunked"))
        elif body is not None or method in ("PUT", "POST"):
            sent.append(("Content-Length", str(len(body or b""))))
        if expect:
            sent.append(("Expect", "100-continue"))
        sent += list(headers)
        if signed:
            text = self.text_to_sign(method, target, sent, lite or version is None)
            sent.append(
                (
                    "Authorization",
                    f"{scheme or ('SharedKeyLite' if lite else 'SharedKey')} {self.account}:{self.sign(text, key)}",
                )
            )
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in sent) + "\r\n"
        return head.encode("latin-1") + (b"" if chunked or expect else body or b"")

    def call(self, method, path, body=None, **how):
        """One request on a connection that is kept; made anew where the server closed it."""
        if self.connection is None:
            self.connection = Connection(self.front)
        self.connection.send(self.bytes(method, path, body, **how))
        got = self.connection.answer(head=method == "HEAD")
        if got is None or got.header("connection") == "close":
            self.close()
        return got

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    # What tests do all the time; each fails unless it went well.

    def create(self, queue, **metadata):
        got = self.call("PUT", "/" + queue, headers=[("x-ms-meta-" + n, v) for n, v in metadata.items()])
        assert got.status in (201, 204), got
        return got

    def put(self, queue, text="hello", query="", **how):
        got = self.call("POST", f"/{queue}/messages{query}", XML.format(escape(text)), **how)
        assert got.status == 201, got
        return got.messages()[0]

    def get(self, queue, n=1, query="", **how):
        got = self.call("GET", f"/{queue}/messages?numofmessages={n}{query}", **how)
        assert got.status == 200, got
        return got.messages()

    def peek(self, queue, n=32):
        return self.get(queue, n, "&peekonly=true")

    def delete(self, queue, message):
        return self.call(
            "DELETE", f"/{queue}/messages/{message['MessageId']}?popreceipt={urllib.parse.quote(message['PopReceipt'])}"
        )

    def count(self, queue):
        return int(self.call("GET", f"/{queue}?comp=metadata").header("x-ms-approximate-messages-count"))


class Front:
    """deferred_http on a port of its own, and an account. env and settings are those of harness.Db, given as db."""

    ACCOUNT = "devstoreaccount1"
    KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def __init__(self, db, *options, config="", start=True):
        self.db, self.options, self.config = db, options, config
        self.access_log = os.path.join(db.dir, "access.log")
        self.key_file = os.path.join(db.dir, "http.key")
        self.write_config()
        self.add_account(self.ACCOUNT, self.KEY)
        self.program = None
        if start:
            self.start()

    def write_config(self, more=""):
        self.db.config(
            f'http {{\n key_file = "{self.key_file}"\n access_log = "{self.access_log}"\n {self.config}\n {more}\n}}\n'
        )

    def add_account(self, name, *keys):
        """Its keys: those given, or new ones."""
        done = self.db.run(
            ["deferred", "account", "add", name, "--json"] + (["--keys", "-"] if keys else []),
            input="\n".join(keys) + "\n" if keys else None,
        )
        assert done.returncode == 0, done
        made = json.loads(done.stdout)
        return made["key1"], made["key2"]

    def start(self, wait=True):
        self.program = self.db.spawn(["deferred_http", "--listen", "127.0.0.1:0", *self.options])
        said = harness.wait_for(
            lambda: re.findall(r"listening on \S+:(\d+), (\S+)$", self.program.output(), re.M)
            or not self.program.alive(),
            what="a listening deferred_http",
        )
        assert said is not True, self.program.output()
        self.port = int([p for p, kind in said if kind == "HTTP"][0])
        if wait:
            harness.wait_for(self.ready, what="a deferred_http that is ready")
        return self

    def plain(self, method, path, timeout=30):
        """A request without authorization and on a connection of its own."""
        with contextlib.closing(Connection(self, timeout)) as c:
            c.send(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nConnection: close\r\n\r\n".encode())
            return c.answer(head=method == "HEAD")

    def ready(self):
        with contextlib.suppress(OSError):
            got = self.plain("GET", "/readyz")
            return got is not None and got.status == 200
        return False

    def client(self, account=None, key=None):
        return Client(self, account or self.ACCOUNT, key or self.KEY)

    def connect(self, **kw):
        return Connection(self, **kw)

    def log(self):
        """The lines of the access log, but for one that is being written."""
        with open(self.access_log) as f:
            return [json.loads(line) for line in f if line.endswith("\n")]

    def stop(self, timeout=30):
        self.program.signal(signal.SIGTERM)
        return self.program.wait(timeout)


class Node:
    """Runs the scripts of tests/http, which use the stock client, against a server (which has a port)."""

    HERE = os.path.join(pg.TOP, "tests", "http")
    NODE = node.NODE

    def __init__(self, db):
        self.db = db
        self.folder = node.install("node", os.path.join(self.HERE, "node"))
        node.scripts(self.folder, self.HERE)

    def env(self, server, **more):
        return {
            "ENDPOINT": f"http://127.0.0.1:{server.port}/{Front.ACCOUNT}",
            "ACCOUNT": Front.ACCOUNT,
            "KEY": Front.KEY,
            **more,
        }

    def command(self, name, *args):
        return [
            node.NODE,
            *(["--test-reporter=tap"] if name == "operations.mjs" else []),
            os.path.join(self.folder, name),
            *args,
        ]

    def run(self, server, name, *args, timeout=150, **more):
        return self.db.run(self.command(name, *args), env=self.env(server, **more), timeout=timeout)

    def say(self, server, name, *args):
        """What a script printed that has to succeed."""
        done = self.run(server, name, *args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def worker(self, server, *args):
        """What worker.mjs said."""
        return [json.loads(line) for line in self.say(server, "worker.mjs", *args).splitlines()]

    def start(self, server, *args):
        return self.db.spawn(self.command("worker.mjs", *args), env=self.env(server))
