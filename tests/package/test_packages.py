"""What the packages and the tarball are made of, without making packages: packages.py does that."""

import email.utils
import glob
import hashlib
import os
import re
import subprocess
import tarfile

import pytest

import harness
import pg

pytestmark = pytest.mark.skipif(harness.SAN, reason="says nothing of a build")
DEBIAN = os.path.join(pg.TOP, "cron/debian")


def make(*args, cwd=pg.TOP, **env):
    done = subprocess.run(
        ["make", "-s", "--no-print-directory", *args],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "MAKEFLAGS": "", "MAKELEVEL": "", **env},
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(*path):
    with open(os.path.join(*path)) as f:
        return f.read()


def test_the_tarball_has_what_git_lists_is_the_same_each_time_and_needs_no_git(tmp_path):
    path = make("dist", f"DIST_PLACE={tmp_path}/made", "DIST_XZ=-0", "DIST_TIME=1700000000").split()[-1]
    with open(path, "rb") as f:
        first = hashlib.sha256(f.read()).hexdigest()
    with tarfile.open(path) as tar:
        members = tar.getmembers()
        tar.extractall(tmp_path, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(tmp_path)
    top = os.path.basename(path)[: -len(".tar.xz")]
    assert {(m.uid, m.gid, m.mtime, m.mode & 0o022, m.isfile()) for m in members} == {(0, 0, 1700000000, 0, True)}
    names = {m.name[len(top) + 1 :] for m in members}
    assert {"Makefile", "README.md", "LICENSE", "sql/embed.awk", "cron/debian/rules"} <= names and not any(
        n.startswith(("build", ".git/")) for n in names
    )
    git = subprocess.run(["git", "ls-files"], cwd=pg.TOP, capture_output=True, text=True)
    assert git.returncode != 0 or names == set(git.stdout.splitlines())
    # The unpacked tarball has no git, other modes, and a caller with other habits. It gives the same tarball.
    for folder, _, files in os.walk(tmp_path / top):
        for name in files:
            os.chmod(os.path.join(folder, name), os.stat(os.path.join(folder, name)).st_mode & 0o700)
    where = {"cwd": tmp_path / top}
    assert "libdeferred.so.1" in make("-n", "all", **where)
    habits = {"TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8", "XZ_OPT": "-9", "TAR_OPTIONS": "--format=pax"}
    again = make("dist", "DIST_XZ=-0", **where, **habits).split()[-1]
    with open(tmp_path / top / again, "rb") as f:
        assert hashlib.sha256(f.read()).hexdigest() == first
    assert read(tmp_path, top, "build/SHA256SUMS") == f"{first}  {os.path.basename(path)}\n"


def test_the_sum_of_the_tarball_is_signed_with_the_named_key(tmp_path):
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    gpg = {"env": {**os.environ, "GNUPGHOME": str(home)}, "capture_output": True, "text": True}
    key = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "test@example.org", "ed25519"]
    subprocess.run(key, check=True, **gpg)
    with tarfile.open(make("dist", f"DIST_PLACE={tmp_path}/made", "DIST_XZ=-0").split()[-1]) as tar:
        tar.extractall(tmp_path, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(tmp_path)
        top = tmp_path / tar.getmembers()[0].name.split("/")[0]
    make("dist", "DIST_XZ=-0", "SIGN_KEY=test@example.org", cwd=top, GNUPGHOME=str(home))
    sums = top / "build/SHA256SUMS"

    def verified():
        said = subprocess.run(["gpg", "--status-fd", "1", "--verify", f"{sums}.asc", sums], **gpg).stdout
        return re.findall(r"GOODSIG|BADSIG", said)

    assert verified() == ["GOODSIG"]
    sums.write_text(sums.read_text().replace("deferred", "Deferred"))
    assert verified() == ["BADSIG"]
    make("dist", "DIST_XZ=-0", cwd=top)
    assert not os.path.exists(f"{sums}.asc"), "the signature of other sums"
    subprocess.run(["gpgconf", "--kill", "all"], check=True, **gpg)


def test_a_tarball_with_a_file_missing_is_not_made(tmp_path):
    for name in ("Makefile", "README.md", "cron/packaging.mk", "tests/tests.mk", "tests/bench/bench.mk"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(read(pg.TOP, name))
    for args in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *args], cwd=tmp_path, check=True)
    os.remove(tmp_path / "README.md")
    with pytest.raises(AssertionError, match="README.md: Cannot stat"):
        make("dist", "DIST_TIME=1700000000", cwd=tmp_path)
    assert not glob.glob(f"{tmp_path}/build/*.xz")


@pytest.mark.parametrize("given", [{}, {"DEBEMAIL": "ann@shop.example"}])
def test_packages_name_the_release_of_debian_and_the_maintainer(tmp_path, given):
    version = make("--eval", "say: ; @echo $(VERSION)", "say").strip()
    with open("/etc/os-release") as f:
        debian = re.search(r'(?m)^VERSION_ID="?(\d+)', f.read())[1]
    make(
        "deb-source",
        f"DEB_PLACE={tmp_path}/deb",
        f"DIST_PLACE={tmp_path}/dist",
        "DIST_XZ=-0",
        DEBFULLNAME="Ann",
        **given,
    )
    changelog = read(tmp_path, f"deb/deferred-{version}/debian/changelog")
    control = read(tmp_path, f"deb/deferred-{version}/debian/control")
    assert changelog.startswith(f"deferred ({version}-1~deb{debian}u1) "), changelog
    maintainer = "Ann <ann@shop.example>" if given else "The deferred maintainers <deferred@example.org>"
    assert f"\nMaintainer: {maintainer}\n" in control
    trailers = re.findall(r"(?m)^ -- (.*)  (\w.*)", changelog)
    assert trailers[0][0] == maintainer, changelog
    dates = [email.utils.parsedate_to_datetime(date) for _, date in trailers]
    assert dates[0] > dates[1] > dates[2], "lintian wants each entry to be later than the one before"


def test_the_packages_take_all_that_is_installed_and_ask_for_what_a_build_needs():
    names = ["COMMANDS", "HELPERS", "MAN_PAGES", "DEPS_BUILD", "VERSION", "SONAME"]
    said = make("--eval", "say: ; @" + "; ".join(f"echo $({name})" for name in names), "say").splitlines()
    value = {name: line.split() for name, line in zip(names, said)}
    taken = "".join(read(path) for path in glob.glob(f"{DEBIAN}/*.install"))
    for name in value["COMMANDS"]:
        assert (
            f"usr/bin/{name}\n" in taken
            and f"completions/{name}\n" in taken
            and f"vendor-completions/_{name}\n" in taken
        ), name
    for name in value["HELPERS"]:
        assert f"usr/libexec/deferred/{name}\n" in taken, name
    for unit in (
        glob.glob(os.path.join(pg.TOP, "cron/*.service"))
        + glob.glob(os.path.join(pg.TOP, "cron/*.socket"))
        + glob.glob(os.path.join(pg.TOP, "cron/*.timer"))
    ):
        assert f"examples/{os.path.basename(unit)} lib/systemd/system\n" in taken, unit
    for page in value["MAN_PAGES"]:
        assert re.search(rf"usr/share/man/man{page[-1]}(/{re.escape(os.path.basename(page))})?\n", taken), page
    control = read(DEBIAN, "control")
    asked = set(
        re.findall(r"[a-z0-9-]+", re.sub(r"\(.*?\)|<.*?>", "", re.search(r"(?ms)^Build-Depends: (.*?)^\S", control)[1]))
    )
    # Those of every build on Debian need not be asked for.
    assert asked == set(value["DEPS_BUILD"]) - {"gcc", "make", "libc6-dev"} | {
        "debhelper-compat",
        "dh-python",
        "python3",
        "libcmocka-dev",
        "libdw-dev",
    }
    assert read(DEBIAN, "changelog").startswith(f"deferred ({value['VERSION'][0]}-1) ")
    symbols = read(DEBIAN, "libdeferred1.symbols")
    exported = subprocess.run(
        ["nm", "-D", "--defined-only", os.path.join(harness.BUILD, "lib/libdeferred.so")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert symbols.startswith(value["SONAME"][0] + " libdeferred1 ")
    assert set(re.findall(r"(?m)^ (\w+)@DEFERRED_1 ", symbols)) == set(
        re.findall(r" [A-Z] (\w+)(?:@|$)", exported, re.M)
    ), "dpkg-gensymbols wants each"


@pytest.mark.parametrize("flags", ["CFLAGS=-g -O0", "CFLAGS=-O2 -D_FORTIFY_SOURCE=3", "CPPFLAGS=-D_FORTIFY_SOURCE=1"])
def test_flags_of_the_user_stand_beside_ours_without_a_warning(tmp_path, flags):
    name, _, value = flags.partition("=")
    make(f"B={tmp_path}", f"{name}={value} -Werror", f"{tmp_path}/obj/lib/base/backoff.o")


def test_a_warning_fails_the_build_of_ci_and_no_other(tmp_path):
    """The script of CI calls a make that builds one file, with a warning."""
    (tmp_path / "make").write_text(
        f"#!/bin/sh\nexec /usr/bin/make -s -C {pg.TOP} B={tmp_path} CFLAGS='-O2 -DTWICE=1 -DTWICE=2' "
        f"{tmp_path}/obj/lib/base/backoff.o\n"
    )
    (tmp_path / "make").chmod(0o755)
    env = {k: v for k, v in os.environ.items() if k not in ("WERROR", "MAKEFLAGS", "MAKELEVEL")}
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    ci, other = os.path.join(pg.TOP, ".ci/run"), tmp_path / "make"
    refused, built, again = [subprocess.run([s], capture_output=True, text=True, env=env) for s in (ci, other, ci)]
    assert refused.returncode == 2 and "redefined [-Werror]" in refused.stderr
    assert built.returncode == 0 and "redefined\n" in built.stderr
    assert (again.returncode, again.stderr) == (0, ""), "a file is not compiled again for the sake of -Werror"


@pytest.mark.slow
def test_an_application_links_a_library_that_was_optimised_as_a_whole(tmp_path):
    library = tmp_path / "lib/libdeferred.a"
    make("-j2", f"B={tmp_path}", "CFLAGS=-O2 -g -flto", library)
    app = tmp_path / "app.c"
    app.write_text('#include <deferred.h>\nint main(void) { return defer("f", "{}", NULL) > 0; }\n')
    line = f"cc -Ilib/include {app} {library} $(pkg-config --libs libpq jansson) -lm -ldl -lpthread -o {tmp_path}/app"
    linked = subprocess.run(["sh", "-c", line], cwd=pg.TOP, capture_output=True, text=True)
    assert linked.returncode == 0, linked.stderr
    assert " T deferred_defer\n" in subprocess.run(["nm", library], capture_output=True, text=True).stdout


def test_a_development_build_names_its_commit_and_a_release_does_not(tmp_path):
    """A release has a tag, or a line in RELEASES. Neither is in the released commit itself."""
    top, script = tmp_path / "top", os.path.join(pg.TOP, "bin/version.sh")
    top.mkdir()

    def git(*args):
        names = {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return subprocess.run(
            ["git", *args], cwd=top, env={**os.environ, **names}, check=True, capture_output=True, text=True
        ).stdout.strip()

    def said(folder=top):
        text = subprocess.run([script, "1.2.3"], cwd=folder, check=True, capture_output=True, text=True).stdout
        return re.search(r'program_version\[\] = "(.*)";\n$', text)[1]

    assert said() == "1.2.3"
    git("init", "-q", "-b", "main")
    (top / "unpacked").mkdir()
    (top / "unpacked/file").write_text("1")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    first, short = git("rev-parse", "HEAD"), git("rev-parse", "--short", "HEAD")
    assert (said(), said(top / "unpacked")) == (f"1.2.3 (commit {short})", "1.2.3")
    git("tag", "v1.2.2")
    assert said() == f"1.2.3 (commit {short})"
    git("tag", "v1.2.3")
    assert said() == "1.2.3"
    (top / "unpacked/file").write_text("2")
    assert said() == f"1.2.3 (commit {short}-dirty)"
    git("tag", "-d", "v1.2.3")
    (top / "RELEASES").write_text(f"1.2.3 2026-11-22 {first}\n")
    git("add", ".")
    git("commit", "-q", "-m", "second")
    assert said() == f"1.2.3 (commit {git('rev-parse', '--short', 'HEAD')})"
    git("checkout", "-q", first)
    assert said() == "1.2.3"


def test_a_build_of_the_same_commit_keeps_the_file_with_the_version(tmp_path):
    file = tmp_path / "gen/version.c"

    def made(version):
        make(f"B={tmp_path}", f"VERSION={version}", file)
        return file.stat().st_mtime_ns, file.read_text()

    first = made("1.2.3")
    assert made("1.2.3") == first and '"1.2.3' in first[1]
    assert made("1.2.4")[1] == first[1].replace("1.2.3", "1.2.4")


def test_another_text_of_a_query_leaves_the_header_as_it_is(tmp_path):
    """Every file that sends a statement includes the header."""
    head = "-- one: a query.\n-- params: none\n-- returns: n int4\n"
    queries = tmp_path / "queries"
    queries.mkdir()
    (queries / "one.sql").write_text(head + "select 1\n")
    header = tmp_path / "gen/sql.h"

    def made():
        make(f"B={tmp_path}", f"SQL={' '.join(map(str, sorted(queries.iterdir())))}", header)
        return header.stat().st_mtime_ns, (tmp_path / "gen/sql.c").read_text()

    time, text = made()
    (queries / "one.sql").write_text(head + "select 2\n")
    os.utime(queries / "one.sql", ns=(time + 10**9, time + 10**9))
    again = made()
    assert again[0] == time and again[1] == text.replace("select 1", "select 2")
    (queries / "two.sql").write_text(head + "select 3\n")
    os.utime(queries / "two.sql", ns=(time + 2 * 10**9, time + 2 * 10**9))
    assert made()[0] > time and "sql_two" in header.read_text()
