"""make install: what is where. That a stranger can build against it, and have it run,
tests/docs/test_readme.py shows."""

import os
import re
import subprocess

import pytest

import harness
import pg
from documents import dead_links


def make(*args, **how):
    san = ["SANITIZE=address,undefined"] if harness.SAN else []
    return subprocess.run(
        ["make", "-s", "--no-print-directory", *san, *args],
        cwd=pg.TOP,
        capture_output=True,
        text=True,
        env={**os.environ, "MAKEFLAGS": "", "MAKELEVEL": ""},
        timeout=300,
        **how,
    )


@pytest.fixture
def installed(tmp_path):
    """Installed by an administrator whose new files are closed to others."""
    done = make("install", f"DESTDIR={tmp_path}", umask=0o077)
    assert done.returncode == 0, done.stderr
    return tmp_path


if not harness.SAN:  # one build of them is enough, and make may not build while another test runs

    def test_installed_files_are_where_they_belong_and_go_again(installed, tmp_path):
        root = os.path.join(installed, "usr/local")
        for name in (
            "bin/check_deferred",
            "bin/deferred",
            "bin/deferred_http",
            "bin/deferred_web",
            "libexec/deferred/deferred_runner",
            "libexec/deferred/deferred_backtrace",
            "lib/libdeferred.so",
            "lib/libdeferred.so.1",
            "lib/libdeferred.a",
            "lib/pkgconfig/libdeferred.pc",
            "lib/deferred/plugins/http.so",
            "lib/deferred/plugins/send_mail.so",
            "lib/site_perl/Deferred/Program.pm",
            "share/nodejs/deferred-program/index.js",
            "share/nodejs/deferred-program/testing.d.ts",
            "include/deferred.h",
            "include/deferred_plugin.h",
            "include/deferred_coordinator.h",
            "share/man/man1/check_deferred.1",
            "share/man/man1/deferred.1",
            "share/man/man8/deferred_http.8",
            "share/man/man8/deferred_web.8",
            "share/doc/deferred/examples/deferred_http.service",
            "share/doc/deferred/examples/deferred_http.socket",
            "share/man/man3/deferred.3",
            "share/man/man5/deferred.conf.5",
            "share/man/man7/deferred.7",
            "share/man/man7/deferred_functions.7",
            "share/man/man7/deferred_program.7",
            "share/deferred/sql/migrations/0001_tables.sql",
            "share/deferred/sql/queries/claim/job_claim.sql",
            "share/deferred/sql/functions/job/defer.sql",
            "share/doc/deferred/README.md",
            "share/doc/deferred/examples/check_deferred.crontab",
            "share/doc/deferred/examples/check_deferred.service",
            "share/doc/deferred/examples/check_deferred-run.service",
            "share/doc/deferred/examples/check_deferred.timer",
            "share/bash-completion/completions/deferred",
            "share/zsh/site-functions/_deferred_http",
            "share/doc/deferred/examples/deferred.conf",
            "share/doc/deferred/examples/deferred.logrotate",
            "share/doc/deferred/examples/deferred_http.logrotate",
            "share/php/Deferred/autoload.php",
        ):
            assert os.path.isfile(os.path.join(root, name)), name
        # What is for trying things has no place where strangers defer jobs.
        assert sorted(os.listdir(os.path.join(root, "lib/deferred/plugins"))) == ["http.so", "send_mail.so"]
        for folder, _, files in os.walk(root):
            assert os.stat(folder).st_mode & 0o077 == 0o055, folder
            for name in files:
                assert os.stat(os.path.join(folder, name)).st_mode & 0o066 == 0o044, name
        done = make("uninstall", f"DESTDIR={tmp_path}")
        assert done.returncode == 0 and done.stderr == ""
        left = [os.path.join(d, f) for d, _, files in os.walk(installed) for f in files]
        assert left == []

    def test_links_of_installed_documents_lead_to_installed_files(installed):
        folder = os.path.join(installed, "usr/local/share/doc/deferred")
        assert os.path.isfile(os.path.join(folder, "docs/how-to/containers.md"))
        assert dead_links(folder) == []

    def test_the_installed_libraries_of_python_and_php_are_found(installed):
        """Python looks in the folder of each prefix by itself. PHP gets the path."""
        root = os.path.join(installed, "usr/local")
        folders = [d for d, _, files in os.walk(os.path.join(root, "lib")) if "py.typed" in files]
        where = "import site; print([f + '/deferred' for f in site.getsitepackages()])"
        known = subprocess.run(["/usr/bin/python3", "-c", where], capture_output=True, text=True).stdout
        assert len(folders) == 1 and repr("/usr/local" + folders[0][len(root) :]) in known
        load = f"require '{root}/share/php/Deferred/autoload.php'; echo Deferred\\milliseconds('2s');"
        assert subprocess.run(["php", "-r", load], capture_output=True, text=True).stdout == "2000"

    def test_a_machine_without_python_gets_its_library_below_the_prefix_too(tmp_path):
        done = make("-n", "install", f"DESTDIR={tmp_path}", "PYTHON=/nonexistent/python3")
        assert (done.returncode, done.stderr) == (0, "")
        (copied,) = re.findall(r"(?m)^install .*/deferred/py\.typed (.*)", done.stdout)
        assert copied == f"{tmp_path}/usr/local/lib/python3/dist-packages/deferred"

    def test_pkg_config_says_where_plugins_go_and_no_place_is_left_open(installed):
        folder = os.path.join(installed, "usr/local/lib/pkgconfig")
        said = subprocess.run(
            ["pkg-config", "--variable=plugindir", "libdeferred"],
            capture_output=True,
            text=True,
            env={**os.environ, "PKG_CONFIG_PATH": folder},
        )
        assert said.stdout == "/usr/local/lib/deferred/plugins\n", said.stderr
        with open(os.path.join(folder, "libdeferred.pc")) as f:
            assert "@" not in f.read()

    def test_a_prefix_in_capitals_is_refused(tmp_path):
        done = make("install", f"PREFIX={tmp_path}/usr", f"DESTDIR={tmp_path}")
        assert done.returncode == 2 and f"use prefix={tmp_path}/usr" in done.stderr, done.stderr
        assert os.listdir(tmp_path) == []

    @pytest.mark.long
    def test_programs_installed_elsewhere_find_their_runner_and_plugins(tmp_path, db):
        """Built for another prefix, in a folder of its own: only the database is named."""
        prefix = os.path.join(tmp_path, "usr")
        done = make("install", f"prefix={prefix}", f"sysconfdir={prefix}/etc", f"B={tmp_path}/build")
        assert done.returncode == 0, done.stderr
        subprocess.run(["rm", "-rf", os.path.join(tmp_path, "build")], check=True)
        shown = {}
        for folder in ("share/man", "share/doc/deferred/examples"):
            for d, _, files in os.walk(os.path.join(prefix, folder)):
                for name in files:
                    with open(os.path.join(d, name)) as f:
                        shown[name] = f.read()
                    assert "/usr/local/bin" not in shown[name], name
                    assert shown[name].count("/etc/deferred") == shown[name].count(f"{prefix}/etc/deferred"), name
        assert f"root   {prefix}/bin/check_deferred " in shown["check_deferred.crontab"]
        assert f"ExecStart={prefix}/bin/check_deferred " in shown["check_deferred.service"]
        assert f"\n.Pa {prefix}/etc/deferred/deferred.conf ,\n" in shown["deferred.conf.5"]
        job = db.defer("send_mail", '{"to": "ann@example.org", "text": "t"}')
        del db.env["DEFERRED_PLUGIN_DIR"]
        done = db.run([os.path.join(prefix, "bin/check_deferred")])
        assert done.returncode == 0, done.stderr
        assert "the sender is missing" in db.one("select error from deferred.__deferred_log where job_id = %s", job)
