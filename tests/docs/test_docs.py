"""What the documents say is what there is."""

import datetime
import glob
import os
import re
import sys

import pytest

import floors
import pg
from documents import read, section
from harness import run


MAN_PAGES = [
    os.path.relpath(p, pg.TOP)
    for d in ("lib", "bin/*", "cron", "docs/man")
    for p in glob.glob(os.path.join(pg.TOP, d, "*.[1-8]"))
]


def man_options():
    return re.findall(r"^\.It Fl -([\w-]+)", read("bin", "check_deferred", "check_deferred.1"), re.M)


def test_there_is_a_man_page_for_each_program_the_library_and_the_config_file():
    assert {os.path.basename(p) for p in MAN_PAGES} >= {
        "check_deferred.1",
        "deferred.1",
        "deferred_http.8",
        "deferred_web.8",
        "deferred.3",
        "deferred_sql.3",
        "deferred.conf.5",
        "deferred_functions.7",
        "deferred_program.7",
    }


@pytest.mark.parametrize("page", MAN_PAGES)
def test_a_man_page_is_well_formed(page):
    if os.path.exists("/usr/bin/mandoc"):
        done = run(["mandoc", "-Tlint", os.path.join(pg.TOP, page)])
        found = done.stdout.splitlines()
        # The pages may not be installed, and ALERTS is not meant to be CAVEATS.
        accepted = r"referenced manual not found|mandoc\.db|possible typo in section name"
        assert [line for line in found if not re.search(accepted, line)] == []
    assert read(page).startswith(".\\\" SPDX-License-Identifier: MIT") or ".Dt " in read(page)


def test_manual_pages_have_one_date_which_is_that_of_the_release():
    """CONTRIBUTING.md says how to set it. Before the release any date will do, on all pages."""
    (date,) = {re.search(r"^\.Dd (.*)", read(page), re.M)[1] for page in MAN_PAGES}
    (newest, *_) = re.findall(r"(?m)^## \S+ \((.*)\)$", read("CHANGELOG.md"))
    day = datetime.datetime.strptime(date, "%B %d, %Y").date().isoformat()
    assert newest in ("not released yet", day)


def test_the_change_log_of_a_release_has_at_most_40_lines():
    for release in re.split(r"(?m)^(?=## )", read("CHANGELOG.md"))[1:]:
        assert len(release.splitlines()) <= 40, release.splitlines()[0]


def test_each_option_of_check_deferred_is_a_setting():
    settings = set(
        re.findall(r'\{? ?"?\b(?:TEXT|NUMBER|FLAG|CHOICE)\("([\w.]+)"', read("lib", "port", "config_table.c"))
    ) | {"database.conninfo", "database.shard"}
    others = {"db": "database.conninfo", "shard": "database.shard", "health": "health.listen"}
    for option in man_options():
        name = others.get(option, option.replace("-", "_"))
        assert name in settings or option in ("config", "help", "version"), option


@pytest.mark.parametrize("program, section", [("deferred_http", "http"), ("deferred_web", "web")])
def test_each_option_of_what_serves_http_is_a_setting(program, section):
    table = read("lib", "port", "config_table.c")
    options = set(re.findall(r"--([a-z-]+)", run([program, "--help"]).stdout))
    for option in options - {"config", "help", "version", "db", "shard", "log-level"}:
        assert f'("{section}.{option.replace("-", "_")}"' in table, option


def test_the_exit_codes_of_check_deferred_are_those_of_its_man_page():
    source = "".join(
        read(p)
        for d in ("bin/check_deferred", "lib/program")
        for p in sorted(glob.glob(os.path.join(pg.TOP, d, "*.c")))
    )
    page = section(read("bin", "check_deferred", "check_deferred.1"), "EXIT STATUS")
    codes = [int(code) for code in re.findall(r"^\.It (\d+)", page, re.M)]
    assert codes == sorted({0} | {getattr(os, name) for name in re.findall(r"\bEX_[A-Z]+", source)})


PAGES = sorted(
    os.path.relpath(p, pg.TOP) for p in glob.glob(os.path.join(pg.TOP, "docs", "**", "*.md"), recursive=True)
)
OTHERS = [
    *("README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("tests/bench/README.md", "tests/bench/RESULTS.md"),
]


def anchors(path):
    """The anchors that a code host makes of the headings of a page."""
    headings = re.findall(r"(?m)^#+ (.*)", read(path))
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", [*OTHERS, *PAGES])
def test_links_lead_somewhere_and_files_that_a_document_names_are_there(name):
    text, folder = read(name), os.path.dirname(os.path.join(pg.TOP, name))
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", text):
        path = os.path.join(folder, link) if link else os.path.join(pg.TOP, name)
        assert os.path.exists(path), link
        assert not anchor or anchor in anchors(os.path.relpath(path, pg.TOP)), (link, anchor)
    for path in re.findall(r"`((?:lib|bin|sql|tests|cron|docs)/[\w./*]+)`", text):
        assert glob.glob(os.path.join(pg.TOP, re.sub(r"NAME|SUBJECT", "*", path))), path


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", *PAGES, *MAN_PAGES])
def test_functions_views_and_settings_that_a_document_names_are_there(name):
    text = read(name)
    tables = "".join(read("sql", "migrations", f"{m}.sql") for m in ("0001_tables", "0002_jobs"))
    views = [os.path.basename(p)[: -len(".sql")] for p in glob.glob(os.path.join(pg.TOP, "sql", "views", "*.sql"))]
    in_sql = {*pg.sources("functions"), *views, *re.findall(r"create (?:\w+ )+deferred\.(\w+)", tables)}
    files = {"conf", "h"}
    # Attributes of spans have such names too.
    of_sql = [] if "spans" in name else re.findall(r"(?<![\w/.-])deferred\.(\w+)\b(?![\w/.-]*/)", text)
    assert set(of_sql) - in_sql - files == set()
    headers = "".join(map(read, glob.glob(os.path.join(pg.TOP, "lib", "include", "*.h"))))
    in_c = re.findall(r"\b(deferred_\w+)\(\)", text) + re.findall(r"\bhost->(\w+)", text)
    assert [called for called in in_c if not re.search(rf"\b{called}\b", headers)] == []
    settings = set(re.findall(r'\("(\w+\.\w+)"', read("lib", "port", "config_table.c")))
    settings |= {"database.conninfo", "database.shard"}
    sections = {setting.split(".")[0] for setting in settings}
    named = re.findall(r"`(\w+\.\w+)`", text) + re.findall(r"(?m)^\.I[ct] (?:Ic )?(\w+\.\w+)\b", text)
    assert {n for n in named if n.split(".")[0] in sections} - settings == set()


def test_each_page_of_the_documentation_is_in_its_index():
    linked = set(re.findall(r"\]\(([^)#:]+\.md)", read("docs", "README.md")))
    pages = {os.path.normpath(os.path.join("docs", link)) for link in linked}
    assert pages - {"README.md"} == set(PAGES) - {"docs/README.md"}


def test_the_settings_of_the_man_page_are_those_of_the_sample():
    done = run([sys.executable, "-B", os.path.join(pg.TOP, "docs", "settings.py"), "--check"])
    assert done.returncode == 0, done.stderr


def test_files_that_a_man_page_names_in_the_source_are_there():
    for page in MAN_PAGES:
        for path in re.findall(r"(?m)^\.Pa ((?:lib|bin|sql|tests|cron)/[\w./]+)", read(page)):
            assert os.path.exists(os.path.join(pg.TOP, path)), (page, path)


def test_what_the_architecture_names_is_there():
    text = read("ARCHITECTURE.md")
    sources = [read(p) for f in ("lib", "bin") for p in glob.glob(f"{pg.TOP}/{f}/**/*.c", recursive=True)]
    spans, functions = set(re.findall(r"`([^`\n]+)`", text)), 0
    for name in spans:
        if call := re.fullmatch(r"(deferred\.)?(\w+)\(\)", name):
            functions += 1
            if call[1]:
                assert call[2] in pg.sources("functions"), name
            else:
                assert any(re.search(rf"(?m)^\w[^;={{}}]*\b{call[2]}\(", source) for source in sources), name
        elif re.fullmatch(r"\w+\.(c|h|sql|py)", name):
            assert glob.glob(os.path.join(pg.TOP, "*", "**", name), recursive=True), name
    assert functions > 20 and {"lib/engine/", "bin/deferred_http/", "sql/queries/"} < spans


def test_the_architecture_lists_each_table_once():
    tables = "".join(map(read, sorted(glob.glob(os.path.join(pg.TOP, "sql", "migrations", "*.sql")))))
    made = re.findall(r"(?m)^create (?:unlogged )?table deferred\.(\w+) \(", tables)
    assert sorted(re.findall(r"(?m)^\| `(__deferred\w*)` \|", read("ARCHITECTURE.md"))) == sorted(made)


def test_pages_and_sections_that_others_name_are_there():
    pages = {re.sub(r"(.*)\.(\d)$", r"\1(\2)", os.path.basename(p)): read(p) for p in MAN_PAGES}
    texts = {
        "README.md": read("README.md"),
        **{name: re.sub(r"\n\.Xr (\S+) (\d)", r" \1(\2)", text) for name, text in pages.items()},
    }
    sections = 0
    for name, text in texts.items():
        for page in re.findall(r"\b((?:check_)?deferred[\w.-]*\(\d\))", text):
            assert page in pages, (name, page)
        for heading, page in re.findall(r"\b([A-Z]{2,}(?: [A-Z]{2,})*) in (\S+\(\d\))", text):
            assert f"\n.Sh {heading}\n" in pages[page], (name, heading, page)
            sections += 1
    assert sections > 10
    assert set(re.findall(r"\b(\S+?\(\d\))", read("docs", "README.md"))) == set(pages)


def test_the_roles_of_the_overview_are_those_that_migrate_makes():
    made = re.search(r"(?s)do \$roles\$(.*?)\$roles\$", read("sql", "queries", "admin", "admin_migrate_roles.sql"))[1]
    told = re.findall(r"(?m)^\.It Li (deferred_\w+)$", section(read("lib", "deferred.7"), "ROLES"))
    assert sorted(told) == sorted(set(re.findall(r"deferred_\w+", made)))


def test_crontab_samples_are_taken_by_cron():
    """A line is five fields, a user, a command; no bare %; the file ends with a newline."""
    text = read("cron", "check_deferred.crontab")
    assert text.endswith("\n")
    jobs = [line for line in text.splitlines() if re.match(r"#?[*\d]\S* ", line)]
    assert len(jobs) >= 5 and jobs[0].startswith("*/2 * * * *")
    for line in jobs:
        assert re.match(r"#?(\S+\s+){5}root\s+/usr/local/bin/(check_)?deferred( |$)", line), line
        assert "%" not in line
    for line in text.splitlines():
        assert line == "" or line.startswith("#") or line == "MAILTO=root" or line in jobs, line


def test_the_access_log_of_the_unit_is_turned_over_as_its_user():
    unit, rotated = read("cron/deferred_http.service"), read("cron/deferred_http.logrotate")
    user = re.search(r"(?m)^User=(\w+)$", unit)[1]
    path = re.search(r"--access-log %L(\S+)", unit)[1]
    block = re.search(rf"(?ms)^/var/log{path} {{\n(.*?)^}}", rotated)[1]
    assert f"\tsu {user} {user}\n" in block and f"\tcreate 0640 {user} {user}\n" in block
    assert f"useradd --system --user-group {user}\n" in unit


def test_no_file_is_unfinished_or_names_the_machine_it_was_made_on():
    for folder, folders, files in os.walk(pg.TOP):
        folders[:] = [f for f in folders if f not in (".git", "build", "__pycache__")]
        for name in files:
            path = os.path.join(folder, name)
            if path == os.path.abspath(__file__) or not os.path.isfile(path):
                continue
            with open(path, errors="replace") as f:
                assert not re.search(r"\b(TODO|FIXME|XXX)\b|/home/\w+/", f.read()), path


def test_each_c_file_has_its_licence_line():
    for d in ("lib", "bin", "tests"):
        for path in glob.glob(os.path.join(pg.TOP, d, "**", "*.[ch]"), recursive=True):
            with open(path) as f:
                assert f.readline() == "/* SPDX-License-Identifier: MIT */\n", path


def test_the_changelog_begins_with_the_version_of_the_programs():
    version = re.search(r"^VERSION := (\S+)", read("Makefile"), re.M).group(1)
    assert f'#define DEFERRED_VERSION "{version}"' in read("lib", "include", "deferred.h")
    assert re.search(r"^## (\S+)", read("CHANGELOG.md"), re.M).group(1) == version
    assert version in run(["check_deferred", "--version"]).stdout


def test_one_door_per_dependency():
    """Of the library, and of each program that has one of its own."""
    doors = {
        "libpq-fe.h": {f"lib/port/{name}" for name in ("answer.c", "pg_connect.c", "pg_result.c", "pg_state.h")},
        "dlfcn.h": {"lib/port/plugin.c", "lib/port/plugin_file.c"},
        "elfutils/": {"bin/deferred_backtrace/source.c"},
        "expat.h": {"bin/deferred_http/protocol/xml.c"},
        "openssl/": {
            "lib/plugins/http/webhook.c",
            "lib/program/account_key.c",
            "lib/program/certificate.c",
            "lib/run/token.c",
            "lib/http/crypto.c",
            "lib/http/tls.c",
        },
        "jansson.h": {"lib/port/params.c", "bin/deferred_http/protocol/json.c"},
    }
    for d in ("lib", "bin"):
        for path in glob.glob(os.path.join(pg.TOP, d, "**", "*.[ch]"), recursive=True):
            name = os.path.relpath(path, pg.TOP)
            with open(path) as f:
                included = re.findall(r"^\s*#\s*include\s+<([\w./-]+)>", f.read(), re.M)
            for header, files in doors.items():
                if header != "jansson.h" or not name.startswith(("bin/deferred_runner/", "lib/plugins/")):
                    assert name in files or not [i for i in included if i.startswith(header)], (name, header)


def test_no_include_goes_up_and_each_source_of_the_library_is_named_by_a_test():
    assert floors.main() == 0


def test_a_source_that_no_test_names_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(floors, "TOP", str(tmp_path))
    for name in ("base/fresh.c", "base/old.c", "base/twice.c", "store/twice.c", "run/broken.c"):
        os.makedirs(tmp_path / "lib" / os.path.dirname(name), exist_ok=True)
        (tmp_path / "lib" / name).touch()
    for name in (
        "lib/old_test.c",
        "lib/twice_test.c",
        "lib/store_twice_test.c",
        "lib/refresh_test.c",
        "mutants/any.txt",
    ):
        os.makedirs(tmp_path / "tests" / os.path.dirname(name), exist_ok=True)
        (tmp_path / "tests" / name).write_text("file: lib/run/broken.c\n")
    assert [line.split(":")[0] for line in floors.untested()] == ["lib/base/fresh.c", "lib/base/twice.c"]
