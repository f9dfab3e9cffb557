"""An HTTP server for a test. The path of a request says how the server misbehaves.

    with Hostile() as server:
        ... server.url("/slow-body") ...
        server.requests     each request: method, target, headers (names in lower case) and body
    server.connections  how many came

A path is the name of a function below: /slow-body is on_slow_body(). Any other path is on_ok(). /status/503 has that
status. The query may say more:
/status/302?location=...&retry-after=... are headers of the answer.
"""

import gzip
import socket
import ssl
import struct
import threading
import urllib.parse

OK = b"HTTP/1.1 200 OK\r\n"
BOMB = gzip.compress(bytes(17 << 20))


class Client(threading.Thread):
    """One connection."""

    def __init__(self, server, sock):
        super().__init__(daemon=True)
        self.server, self.sock = server, sock

    def send(self, data):
        self.sock.sendall(data)

    def answer(self, body=b"", head=OK, **headers):
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.send(head + lines.encode("latin-1") + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def trickle(self, data):
        """Byte by byte, until the client has gone."""
        for byte in data:
            self.send(bytes([byte]))
            self.server.stopped.wait(0.02)

    def wait(self):
        """Until the client has gone."""
        while self.sock.recv(65536):
            pass

    def forever(self, data):
        while not self.server.stopped.is_set():
            self.send(data)

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def read_request(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = self.sock.recv(1)
            if not byte:
                return None
            head += byte
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        method, target, _ = first.split(" ")
        headers = {}
        for line in lines:
            name, value = line.split(":", 1)
            assert name.lower() not in headers, f"{name} is there twice"
            headers[name.lower()] = value.strip()
        body = b""
        while len(body) < int(headers.get("content-length", 0)):
            body += self.sock.recv(65536)
        return {"method": method, "target": target, "headers": headers, "body": body}

    def serve(self):
        if self.server.tls:
            self.sock = self.server.tls.wrap_socket(self.sock, server_side=True)
        while request := self.read_request():
            self.server.requests.append(request)
            self.path = urllib.parse.urlsplit(request["target"])
            self.query = dict(urllib.parse.parse_qsl(self.path.query))
            name = self.path.path.strip("/").split("/")[0].replace("-", "_")
            globals().get(f"on_{name}", on_ok)(self)
            if name not in ("status", "ok", "redirect"):
                return

    def run(self):
        try:
            self.serve()
        except OSError:
            pass  # the client has gone
        self.sock.close()


class Hostile:
    def __init__(self, address="127.0.0.1", port=0, certificate=None):
        self.requests, self.connections, self.stopped, self.tls = [], 0, threading.Event(), None
        if certificate:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(certificate, str(certificate)[: -len("pem")] + "key")
        self.listener = socket.create_server((address, port), backlog=64)
        self.address, self.port = self.listener.getsockname()
        self.thread = threading.Thread(target=self.accept, daemon=True)

    def url(self, path="/ok", host=None):
        return f"{'https' if self.tls else 'http'}://{host or self.address}:{self.port}{path}"

    def accept(self):
        while True:
            sock, _ = self.listener.accept()
            if self.stopped.is_set():
                return sock.close()
            self.connections += 1
            Client(self, sock).start()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        socket.create_connection((self.address, self.port)).close()
        self.thread.join()
        self.listener.close()


# ---- the answers


def on_ok(c):
    c.answer(b"hello")


def on_status(c):
    headers = {name: value for name, value in c.query.items() if name != "body"}
    code = c.path.path.split("/")[2]
    c.answer(c.query.get("body", "").encode(), f"HTTP/1.1 {code} Text\r\n".encode(), **headers)


def on_redirect(c):
    """/redirect/N leads to N further redirects, and then to /ok."""
    n = int(c.path.path.split("/")[2])
    c.answer(head=b"HTTP/1.1 307 Text\r\n", Location=f"/redirect/{n - 1}" if n else "/ok", Set_Cookie="a=b")


def on_redirect_loop(c):
    c.answer(head=b"HTTP/1.1 302 Text\r\n", Location="/redirect-loop")


def on_long_text(c):
    c.answer(b"x" * 9000)


def on_text_cut_in_a_character(c):
    c.answer(b"x" + "ü".encode() * 5000)


def on_text_with_a_broken_end(c):
    c.answer(b"text\xc3")


def on_binary(c):
    c.answer(bytes(range(256)) * 40)


def on_nul_in_the_body(c):
    c.answer(b"a\0b")


def on_chunked(c):
    c.send(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: x\r\n\r\n")


def on_until_the_end(c):
    c.send(OK + b"\r\nhello")


def on_two_heads_of_1xx(c):
    c.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
    c.answer(b"hello")


def on_longer_than_it_says(c):
    c.send(OK + b"Content-Length: 5\r\n\r\nhello, HTTP/1.1 500 Text\r\n\r\n")


def on_gzip_bomb(c):
    c.answer(BOMB, Content_Encoding="gzip")


def on_never_answers(c):
    c.wait()


def on_slow_head(c):
    c.trickle(OK + b"X: " + b"y" * 60000)


def on_slow_body(c):
    c.send(OK + b"Content-Length: 60000\r\n\r\n")
    c.trickle(b"z" * 60000)


def on_slow_body_of_an_error(c):
    c.send(b"HTTP/1.1 404 Text\r\nContent-Length: 60000\r\n\r\n")
    c.trickle(b"z" * 60000)


def on_closes_at_once(c):
    pass


def on_closes_in_the_head(c):
    c.send(OK + b"Content-Le")


def on_resets(c):
    c.reset()


def on_resets_in_the_body(c):
    c.send(OK + b"Content-Length: 100\r\n\r\nhello")
    c.reset()


def on_half_closed(c):
    c.sock.shutdown(socket.SHUT_WR)
    c.wait()


def on_shorter_than_it_says(c):
    c.send(OK + b"Content-Length: 100\r\n\r\nhello")


def on_two_lengths(c):
    c.send(OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello")


def on_length_below_zero(c):
    c.send(OK + b"Content-Length: -5\r\n\r\nhello")


def on_chunk_without_a_size(c):
    c.send(OK + b"Transfer-Encoding: chunked\r\n\r\nhello\r\n")


def on_chunk_that_ends_early(c):
    c.send(OK + b"Transfer-Encoding: chunked\r\n\r\nff\r\nhello")


def on_chunk_of_a_huge_size(c):
    c.send(OK + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello")


def on_huge_body(c):
    c.send(OK + b"Content-Length: %d\r\n\r\n" % (17 << 20))
    for _ in range(17):
        c.send(bytes(1 << 20))
    c.wait()


def on_endless_body(c):
    c.send(OK + b"\r\n")
    c.forever(b"x" * 65536)


def on_endless_chunks(c):
    c.send(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    c.forever(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")


def on_endless_body_of_an_error(c):
    c.send(b"HTTP/1.1 500 Text\r\n\r\n")
    c.forever(b"x" * 65536)


def on_huge_header(c):
    c.send(OK + b"X: " + b"y" * (1 << 20) + b"\r\n\r\n")


def on_huge_heads(c):
    c.send(OK + (b"X: " + b"y" * 1000 + b"\r\n") * 80 + b"Content-Length: 0\r\n\r\n")
    c.wait()


def on_endless_headers(c):
    c.send(OK)
    c.forever(b"X: y\r\n")


def on_endless_1xx(c):
    c.forever(b"HTTP/1.1 100 Continue\r\n\r\n")


def on_switches_protocols(c):
    c.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
    c.wait()


def on_bad_status_line(c):
    c.send(b"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n")


def on_bad_version(c):
    c.send(b"HTTP/9.7 200 OK\r\nContent-Length: 0\r\n\r\n")


def on_http_0_9(c):
    c.send(b"hello\n")


def on_another_protocol(c):
    c.send(b"220 mail.example.org ESMTP\r\n")
    c.wait()


def on_nul_in_a_header(c):
    c.send(OK + b"X: a\0b\r\nContent-Length: 0\r\n\r\n")


def on_terminal_escapes(c):
    c.answer(b"\x1b]0;title\x07\nsecond line \xff", b"HTTP/1.1 404 Text\r\n")
