"""Types what the pages of docs/ show, page by page, in a database of the page's own, and compares what is printed.

A block is run by its language: `console` (commands behind `$`, with their output below), `sh`, `sql`, `crontab`. A
comment in the line before a block says otherwise, and does not show on the page:

    <!-- file: NAME -->      the block is written to NAME, to be run by a later block
    <!-- append: NAME -->    the block is added to NAME
    <!-- not run: REASON --> the block is shown only

In shown output a number stands for any number, and a line `...` for any lines.
"""

import glob
import os
import re

import pytest

import harness
import pg
from documents import read, typed
from mailserver import Smtpd

PAGES = sorted(
    os.path.relpath(p, pg.TOP) for p in glob.glob(os.path.join(pg.TOP, "docs", "**", "*.md"), recursive=True)
)
BLOCK = re.compile(r"(?ms)^(?: *<!-- (file|append|not run): (.*?) -->\n)?( *)```(\w*)\n(.*?)^ *```$")
MACHINE = ("docs/tutorial.md", "docs/how-to/uninstall.md")  # test_tutorial.py types these on a machine of their own
RUN = ("console", "sh", "sql", "crontab")
SHOWN = (
    "",
    "text",
    "json",
    "c",
    "js",
    "nginx",
    "yaml",
    "dockerfile",
    "mermaid",
    "python",
    "php",
    "perl",
    "ruby",
    "go",
    "ini",
)


def blocks(page):
    """Yields (what the comment says, its argument, language, text)."""
    for mark, argument, indent, language, text in BLOCK.findall(read(page)):
        yield mark, argument, language, re.sub(rf"(?m)^{indent}", "", text)


def shape(text):
    """A pattern of what may be printed where this is shown."""
    lines = [
        re.sub(r"(?:\\[.:,]|\d)*\d(?:\\?[.:,]\d+)*", r"[\\d.:,]+", re.escape(line.rstrip()))
        for line in text.strip("\n").split("\n")
    ]
    pattern = "".join("(?:.*\n)*" if line == r"\.\.\." else re.sub(r"(?:\\ )+", " +", line) + " *\n" for line in lines)
    return re.compile(pattern)


class Reader:
    """A person with a shell who follows a page. Paths and names of the page lie in a folder and a
    database of the test's own. The table of the tutorial's shop is there, and a mail server."""

    def __init__(self, db):
        self.db, self.root, self.mails = db, db.dir, Smtpd(db.dir + "/mails", "--port", "0")
        languages = os.path.join(pg.TOP, "lib", "languages")
        self.names = [
            (
                r"(?<![\w.])/(?=etc/deferred\b|etc/cron\.d\b|usr/local/(?:lib|share/php)\b|var/(?:log|spool)/)",
                self.root + "/",
            ),
            # The library is not installed.
            ('"/usr/bin/perl"', f'"/usr/bin/env", "PERL5LIB={languages}/perl/lib", "/usr/bin/perl"'),
            ("/usr/local/bin/", harness.BUILD + "/bin/"),
            (r"\bwebapp\b", db.name + "_web"),
            (r"\brole pages\b", f"role {db.name}_pages"),
            (
                r"\b(createdb |psql |pg_dump --format=custom |-d |dbname=|database: \")(?:app|shop|blog)\b",
                rf"\g<1>{db.name}",
            ),
            (r"host=db (?=dbname)", f"host={db.cluster.folder} port={pg.PORT} user={pg.USER} "),
            (r"/run/(?=deferred-)", self.root + "/"),
            ('user = "deferred"', 'user = "nobody"'),
            (r"port = 2525", f"port = {self.mails.port}"),
        ]
        for folder in ("etc/deferred", "etc/cron.d", "usr/local/lib", "var/log", "var/spool"):
            os.makedirs(os.path.join(self.root, folder), exist_ok=True)
        os.makedirs(f"{self.root}/usr/local/lib/node_modules")
        os.symlink(f"{languages}/node", f"{self.root}/usr/local/lib/node_modules/deferred-program")
        os.symlink(f"{languages}/python/deferred", f"{self.root}/usr/local/lib/deferred")
        os.makedirs(f"{self.root}/usr/local/share/php")
        os.symlink(f"{languages}/php/src", f"{self.root}/usr/local/share/php/Deferred")
        self.write("/etc/deferred/deferred.conf", "", "w")
        os.chmod(self.root, 0o711)
        self.env = {
            **db.cluster.env(db.name),
            "PATH": f"{harness.BUILD}/bin:{os.environ['PATH']}",
            "DEFERRED_PIDFILE": self.root + "/pid",
            "DEFERRED_CONFIG": self.root + "/etc/deferred/deferred.conf",
        }
        db.sql(
            f"create role {db.name}_web login in role deferred_producer; "
            f"create table orders (id bigint generated always as identity, customer text, item text)"
        )

    def named(self, text):
        for old, new in self.names:
            text = re.sub(old, new, text)
        return text

    def write(self, name, text, how):
        name = os.path.join(self.root, self.named(name).removeprefix(self.root).lstrip("/"))
        os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, how, encoding="utf-8") as f:
            f.write(self.named(text))
        os.chmod(name, 0o755)

    def shell(self, command):
        done = self.db.run(
            ["bash", "-e", "-o", "pipefail", "-c", self.named(command) + "\n"], env=self.env, cwd=self.root
        )
        return (
            done.stdout + "".join(line for line in done.stderr.splitlines(True) if "functions run as root" not in line),
            done.returncode,
        )

    def follow(self, page):
        for mark, argument, language, text in blocks(page):
            if mark in ("file", "append"):
                self.write(argument, text, "w" if mark == "file" else "a")
            elif mark or language not in RUN:
                continue
            elif language == "console":
                for command, shown in typed(text):
                    printed, _ = self.shell(command)
                    same = shape("\n".join(shown)).fullmatch(printed.strip("\n") + "\n") or not shown and not printed
                    assert same, f"{page}: {command} prints:\n{printed}"
            elif language == "crontab":
                for line in text.splitlines():  # five fields, the user, the command
                    printed, code = self.shell(line.split(maxsplit=6)[6])
                    assert code == 0 or code == 1 and "alert --print" in line, (line, code, printed)
            else:
                command = f"psql -Xq -v ON_ERROR_STOP=1 <<'END'\n{text}\nEND" if language == "sql" else text
                printed, code = self.shell(command)
                assert code == 0, (text, printed)

    def close(self):
        self.mails.stop()
        self.db.sql(f"drop owned by {self.db.name}_web; drop role {self.db.name}_web")
        self.db.sql(f"drop role if exists {self.db.name}_pages")


@pytest.fixture
def reader(db):
    r = Reader(db)
    yield r
    r.close()


def test_each_file_is_named_before_its_text():
    """The comment for the test does not show on the page."""
    for page in PAGES:
        text = read(page)
        for comment in re.finditer("<!-- (?:file|append): (.*?) -->", text):
            before = text[: comment.start()].rstrip().split("\n\n")[-1]
            assert f"`{comment[1]}`" in before, (page, comment[1])


def test_each_block_says_what_it_is():
    for page in PAGES:
        for mark, argument, language, text in blocks(page):
            assert language in (*RUN, *SHOWN), (page, language)
        assert len(re.findall(r"(?m)^ *```", read(page))) == 2 * len(list(blocks(page))), page


def test_each_block_that_is_not_run_here_names_the_test_that_runs_it():
    reasons = [(page, argument) for page in PAGES for mark, argument, *_ in blocks(page) if mark == "not run"]
    for page, reason in reasons:
        named = re.match(r"(tests/\S+\.py) (?:runs|compiles) it\b", reason)
        if named:
            assert os.path.basename(page) in read(named[1]), (page, reason)
        else:
            assert reason in ("needs a cluster", "make check-container builds and runs these files"), (page, reason)


@pytest.mark.skipif(harness.SAN, reason="what is typed is tested under the sanitizers elsewhere")
@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if p not in MACHINE and any(lang in RUN and not mark for mark, _, lang, _ in blocks(p))],
)
def test_what_a_page_shows_is_what_happens(reader, page):
    reader.follow(page)


def test_sections_of_the_config_file_that_are_only_shown_are_valid(db):
    shown = [text for page in PAGES for mark, _, language, text in blocks(page) if language == "ini" and not mark]
    sections = [text for text in shown if not text.startswith("[")]  # which is a file of libpq
    assert len(sections) >= 3
    for text in sections:
        db.config(text)
        done = db.run(["deferred", "ls"])
        assert (done.returncode, done.stderr) == (0, ""), (text, done)
