"""Fixtures for tests of plugins: an SMTP server that misbehaves on demand, certificates, calls of a function."""

import json
import os
import subprocess

import pytest

import harness
from mailserver import Smtpd

STOCK = os.path.join(harness.BUILD, "plugins")


@pytest.fixture
def smtpd(tmp_path):
    """Start servers: smtpd("--auth", "user:password")."""
    servers = []

    def start(*args):
        servers.append(Smtpd(tmp_path / f"mail{len(servers)}", *args))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """Paths: ca.pem (an authority), good.pem/.key (localhost, signed by it), other.pem (another authority),
    wrong.pem/.key (signed by it, for another host), expired.pem/.key."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    for name in ("ca", "other"):
        openssl(
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.pem",
        )
    for name, host in (("good", "localhost"), ("wrong", "elsewhere.example"), ("expired", "localhost")):
        openssl(
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            f"/CN={host}",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.csr",
        )
        (folder / f"{name}.ext").write_text(f"subjectAltName=DNS:{host}\n")
        openssl(
            "x509",
            "-req",
            "-in",
            f"{name}.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "0" if name == "expired" else "2",
            "-extfile",
            f"{name}.ext",
            "-out",
            f"{name}.pem",
        )
    return folder


class Outcome:
    """What a call came to: returned (ok, failed, later, dead, unready, cancel, snooze), result,
    error, retry_after_ms, deferred, removed, log."""

    def __init__(self, line):
        self.retry_after_ms = self.result = self.error = None
        self.__dict__.update(json.loads(line))
        self.returned = ["ok", "failed", "later", "dead", "unready", "cancel", "snooze"][self.returned]
        self.deferred = [
            (fn, json.loads(params), json.loads(opts) if opts else None) for fn, params, opts in self.deferred
        ]


@pytest.fixture
def call(tmp_path):
    """call(fn, params..., settings={}, id=1, ...) calls fn with each params, all in one process; returns its
    outcome, or a list where there are several params. Text is passed as it is, other params as JSON. names: the
    name server that the process asks."""

    def run(fn, *params, settings=None, folder=STOCK, env=None, timeout=60, names=None, **job):
        args = [os.path.join(harness.BUILD, "tests", "harness", "plugin_call")]
        options = {"-i": "id", "-c": "created_at_us", "-r": "ready_at", "-a": "attempt", "-l": "label"}
        for option, name in options.items():
            args += [option, str(job[name])] if name in job else []
        for name, value in (settings or {}).items():
            args += ["-s", f"{name}={value}"]
        texts = [p if isinstance(p, str) else json.dumps(p, ensure_ascii=False) for p in params]
        args += [folder, fn] + texts
        if names:
            args = names.asked_by(*args)
        done = harness.run(args, cwd=tmp_path, timeout=timeout, env=env)
        assert done.returncode == 0, done.stderr
        outcomes = [Outcome(line) for line in done.stdout.split("\n") if line]
        assert len(outcomes) == len(params)
        return outcomes[0] if len(outcomes) == 1 else outcomes

    return run
