"""A name server on an address of the loopback interface, and programs that ask it alone.

    with NameServer({"db.test": "127.0.0.1"}, db.dir) as names:
        db.spawn(names.asked_by("check_deferred", "--loop"))

    names.silent = True     it takes questions and never answers
    names.asked             how many questions came

A name may have several addresses. A name that is not known does not exist. getaddrinfo() waits twice for `PATIENCE_S`.
"""

import os
import shlex
import socket
import struct
import threading

import pytest

from harness import command

PATIENCE_S = 30
A, NO_SUCH_NAME = 1, 3


class NameServer:
    def __init__(self, known, folder):
        self.known = {name: [a] if isinstance(a, str) else a for name, a in known.items()}
        self.silent, self.asked = False, 0
        # Tests run side by side: each has an address of its own.
        self.address = "127.{}.{}.{}".format(53, os.getpid() >> 8 & 255, os.getpid() & 255)
        self.resolv = os.path.join(folder, "resolv.conf")
        with open(self.resolv, "w") as f:
            f.write(f"nameserver {self.address}\noptions timeout:{PATIENCE_S} attempts:2\n")

    def __enter__(self):
        if os.geteuid() != 0:
            pytest.skip("only root opens port 53")
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((self.address, 53))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", (self.address, 53))
        self.thread.join()
        self.socket.close()

    def serve(self):
        while True:
            question, sender = self.socket.recvfrom(512)
            if not question:
                return
            self.asked += 1
            if not self.silent:
                self.socket.sendto(self.answer(question), sender)

    def answer(self, question):
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1 : at + 1 + question[at]].decode())
            at += 1 + question[at]
        asked = question[12 : at + 5]
        (kind,) = struct.unpack(">H", question[at + 1 : at + 3])
        addresses = self.known.get(".".join(labels))
        records = [socket.inet_aton(a) for a in addresses or []] if kind == A else []
        flags = 0x8180 | (NO_SUCH_NAME if addresses is None else 0)
        head = question[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0)
        return head + asked + b"".join(struct.pack(">HHHIH", 0xC00C, A, 1, 0, 4) + r for r in records)

    def asked_by(self, *args):
        """The command line of a program of ours that asks this server alone, in a mount namespace of its own."""
        script = f"mount --bind {self.resolv} /etc/resolv.conf && exec {shlex.join(command(args))}"
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
