"""A TCP proxy in front of a PostgreSQL socket that misbehaves on demand.

    with Proxy(cluster) as proxy:
        db.env["DEFERRED_DB"] = proxy.conninfo(db.name)

A *turn* is what a client sends in one piece; what the server sends until the next turn is its reply.
Turns are counted over all connections from 1, the start-up packet included.

    proxy.drop_reply = N    turn N reaches the server; its reply does not come back, the connection is cut
    proxy.swallow = True    bytes vanish both ways while connections stay open, as in a partition
    proxy.mute = True       what the server sends vanishes, while requests reach it
    proxy.refuse = True     new connections are closed at once
    proxy.idle_s = 1        a connection that was used and is idle for that long is cut, as firewalls do
    proxy.cut()             all connections are cut now
"""

import os
import select
import socket
import threading
import time

import pg

READY_FOR_QUERY = b"Z\0\0\0\5"  # and one byte for the state of the transaction


class Proxy:
    def __init__(self, cluster):
        self.upstream = os.path.join(cluster.folder, f".s.PGSQL.{pg.PORT}")
        self.drop_reply = None
        self.swallow = self.mute = self.refuse = False
        self.idle_s = None
        self.turns = self.connections = self.cuts = 0
        self.last_accept = []
        self.lock = threading.Lock()
        self.open = set()

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.cut()

    def conninfo(self, dbname, **more):
        parts = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": pg.USER,
            "dbname": dbname,
            "sslmode": "disable",
            "gssencmode": "disable",
            **more,
        }
        return " ".join(f"{k}={v}" for k, v in parts.items())

    def cut(self):
        with self.lock:
            pairs = list(self.open)
        for pair in pairs:
            self.close(pair)

    def close(self, pair):
        with self.lock:
            if pair not in self.open:
                return
            self.open.discard(pair)
            self.cuts += 1
        for s in pair:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            self.last_accept.append(time.monotonic())
            if self.refuse:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.upstream)
            except OSError:
                client.close()
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.open.add((client, server))
            threading.Thread(target=self.carry, args=(client, server), daemon=True).start()

    def carry(self, client, server):
        """Carries one connection to its end. While `doomed`, replies are discarded until the server pauses."""
        pair, doomed = (client, server), False
        asked, answered = 0, False
        try:
            while pair in self.open:
                # The end of a doomed connection comes when the server has had its say. One that
                # begins, or waits for a slow answer, is not idle.
                ready, _, _ = select.select(
                    [client, server], [], [], 0.2 if doomed else self.idle_s if asked > 1 and answered else None
                )
                if not ready:
                    break
                for source in ready:
                    data = source.recv(65536)
                    if not data:
                        return
                    if self.swallow or (self.mute and source is server):
                        continue
                    if source is client:
                        with self.lock:
                            self.turns += 1
                            doomed = doomed or self.turns == self.drop_reply
                        asked, answered = asked + 1, False
                        server.sendall(data)
                    else:
                        answered = data[-6:-1] == READY_FOR_QUERY
                        if not doomed:
                            client.sendall(data)
        except OSError:
            pass
        finally:
            self.close(pair)
            client.close()
            server.close()
