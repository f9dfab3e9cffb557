"""--help, the manual pages and the tables of the parser say the same, and --help fits a terminal of 80 columns."""

import glob
import os
import re

import pytest

import pg
from documents import read
from harness import program, run

PROGRAMS = {"check_deferred": 1, "deferred_http": 8, "deferred_web": 8}
COMMANDS = sorted(
    os.path.basename(p)[len("deferred-") : -len(".1")] for p in glob.glob(os.path.join(pg.TOP, "docs/man/*.1"))
)
HELP = [[name] for name in PROGRAMS] + [["deferred"]] + [["deferred", name] for name in COMMANDS]


def shown(argv):
    done = run([*argv, "--help"])
    assert done.returncode == 0 and not done.stderr
    return done.stdout


def options(text):
    """{option: its defaults} of the lines that begin with one; words of a command can have the same option."""
    found = {}
    for name, default in re.findall(r"(?m)^  --([\w-]+)(?: \S+)?  +\S.*?(?: \(([^()]+)\))?$", text):
        found.setdefault(name, []).append(default)
    return found


def own(text):
    return options(text.split("Options of all commands:")[0])


def described(name):
    """{place: options} as the parser of this program reads them."""
    found = {}
    for line in run([name, "--describe"]).stdout.splitlines():
        place, kind, what, _, _ = line.split("\t")
        if kind == "option":
            found.setdefault(place, set()).add(what.removeprefix("--"))
    return found


def manual(page):
    """{option: its paragraph} of a manual page."""
    found = {}
    for item, text in re.findall(r"(?m)^\.It (Fl .*)\n((?:(?!\.It|\.Sh|\.El).*\n)*)", page):
        for name in re.findall(r"(?:Fl |, )-([\w-]+)", item):
            found[name] = found.get(name, "") + text
    return found


def page_of(argv):
    if len(argv) == 2:
        return read("docs", "man", f"deferred-{argv[1]}.1")
    return read("bin", argv[0], f"{argv[0]}.{PROGRAMS.get(argv[0], 1)}")


def filters():
    return set(manual(read("bin/deferred/deferred.1").split(".Sh FILTERS")[1]))


@pytest.mark.parametrize("argv", HELP, ids=" ".join)
def test_help_fits_80_columns_and_has_one_line_per_option(argv):
    text = shown(argv)
    assert text.startswith("usage: " + " ".join(argv))
    for line in text.splitlines():
        assert len(line) <= 80 and line == line.rstrip(), line
    assert len(re.findall(r"(?m)^ *--", text)) == len(re.findall(r"(?m)^  --[\w-]+(?: \S+)?  +\S", text)) >= 3
    assert text == run([*argv, "-h"]).stdout


@pytest.mark.parametrize("argv", HELP, ids=" ".join)
def test_help_shows_the_options_that_the_parser_reads(argv):
    place = " ".join(argv)
    read_by_parser = {o for p, names in described(argv[0]).items() if f"{p} ".startswith(f"{place} ") for o in names}
    if argv == ["deferred"]:
        read_by_parser = described("deferred")["deferred"]
    assert set(options(shown(argv))) == read_by_parser


@pytest.mark.parametrize("argv", HELP, ids=" ".join)
def test_help_and_the_manual_page_have_the_same_options_and_defaults(argv):
    helped, page = own(shown(argv)), page_of(argv)
    documented = manual(page.split(".Sh FILTERS")[0])
    if "FILTERS in" in page and len(argv) == 2:
        assert filters() - {"state"} <= set(helped) or argv[1] == "spans"
        documented |= dict.fromkeys((filters() & set(helped)) - set(documented), "")
    assert set(helped) == set(documented)
    for name, defaults in helped.items():
        said = re.search(r"(?m)^Default: ?(?:\n\.\w\w )?([\d*/][\w./]*\w|\d)", documented[name])
        assert not said or any(default.startswith(said[1]) for default in defaults), (name, defaults, said)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_the_title_of_its_manual_page(name):
    title = re.search(r"(?m)^\.Nd (.*)", page_of(["deferred", name]))[1]
    assert re.search(rf"(?m)^  {name} +{re.escape(title)}$", shown(["deferred"]))
    assert f"\n{title}\n" in shown(["deferred", name])


def test_help_has_each_command_and_each_other_manual_page_as_a_topic():
    text = shown(["deferred"])
    assert sorted(re.findall(r"(?m)^  (\w+)  ", text.split("Options")[0])) == COMMANDS
    pages = [p for d in ("lib", "bin/*", "cron") for p in glob.glob(os.path.join(pg.TOP, d, "*.[1-8]"))]
    names = {re.sub(r"(.*)\.(\d)$", r"\1(\2)", os.path.basename(p)) for p in pages}
    assert set(re.findall(r"(?m)^  (\S+\(\d\))", text)) == names


@pytest.mark.parametrize(
    "topic, section, page",
    [
        ("deferred.conf", 5, "cron/deferred.conf.5"),
        ("deferred(7)", 7, "lib/deferred.7"),
        ("deferred_sql", 3, "lib/deferred_sql.3"),
        ("config", 5, "cron/deferred.conf.5"),
        ("sql", 3, "lib/deferred_sql.3"),
        ("overview", 7, "lib/deferred.7"),
        ("options", 1, "bin/deferred/deferred.1"),
        ("worker", 1, "bin/check_deferred/check_deferred.1"),
        ("plugins", 7, "lib/deferred_functions.7"),
        ("program", 7, "lib/deferred_program.7"),
        ("c", 3, "lib/deferred.3"),
        ("http", 8, "bin/deferred_http/deferred_http.8"),
        ("web", 8, "bin/deferred_web/deferred_web.8"),
    ],
)
def test_help_opens_a_manual_page(tmp_path, topic, section, page):
    os.makedirs(tmp_path / f"man{section}")
    os.symlink(os.path.join(pg.TOP, page), tmp_path / f"man{section}" / os.path.basename(page))
    done = run(
        ["deferred", "help", topic],
        env={"MANPATH": str(tmp_path), "MANPAGER": "cat", "PAGER": "cat", "MANWIDTH": "200"},
    )
    title = re.search(r"(?m)^\.Nd (.*)", read(page))[1]
    assert done.returncode == 0 and title in " ".join(done.stdout.split()), done


def test_help_on_a_topic_without_man_names_the_package(tmp_path):
    done = run([program("deferred"), "help", "deferred_web"], env={"PATH": str(tmp_path)})
    assert done.returncode == 69 and done.stdout == ""
    assert re.fullmatch(r"deferred: man: cannot be started \(.*\)\nhint: apt install man-db\n", done.stderr)


@pytest.mark.parametrize("topic", ["retri", "deferred(9)", "deferred(7", "deferred(7)x", ""])
def test_an_unknown_topic_is_an_error_that_lists_the_topics(topic):
    done = run(["deferred", "help", topic])
    assert done.returncode == 64 and done.stdout == ""
    assert done.stderr.startswith(f"deferred: topic '{topic}' is unknown\nhint: ")
    topics = shown(["deferred"]).split("Topics of")[1].split("\n", 1)[1]
    assert done.stderr.endswith(topics) and re.search(r"deferred_sql\(3\) +sql ", topics)
    assert set(COMMANDS) <= set(done.stderr.split()) and max(map(len, done.stderr.splitlines()[1:])) <= 80


def test_commands_and_options_that_the_pages_show_exist():
    pages = [os.path.join(pg.TOP, "README.md"), *glob.glob(os.path.join(pg.TOP, "docs", "**", "*.md"), recursive=True)]
    shared, seen = set(options(shown(["deferred"]))), 0
    for path in pages:
        shown_here = re.findall(
            r"(?<![/\w-])(check_deferred|deferred(?:_http|_web)?)((?: +[^\s`|>&;)#]+)*)", read(path)
        )
        for name, words in shown_here:
            given = re.findall(r"(?<= )--([a-z][\w-]*)", words)
            command = next((word for word in words.split() if word in COMMANDS), None)
            if given and (name != "deferred" or command):
                there = set(options(shown([name, command] if name == "deferred" else [name])))
                assert set(given) <= there | shared, (path, name + words)
                seen += len(given)
    assert seen > 60


def test_make_help_has_one_line_for_each_target():
    listed = {}
    for line in run(["make", "-s", "help"], cwd=pg.TOP).stdout.splitlines():
        assert len(line) <= 100
        for name, what in re.findall(r"^  ([a-z][\w-]*) +(\S.*)$", line):
            assert name not in listed
            listed[name] = what
    makefiles = "\n".join(read(p) for p in ("Makefile", "tests/tests.mk", "tests/bench/bench.mk", "cron/packaging.mk"))
    targets = {
        name for line in re.findall(r"(?m)^\.PHONY: (.*)", makefiles) for name in re.findall(r"[a-z][\w-]*", line)
    }
    parts = {"tests", "test-parts", "demo-programs", "bench-parts", "fuzz-clang", "fuzz-changes"}
    families = {"bench-NAME": r"bench-", "deps-NAME": r"deps-"}
    assert targets >= parts
    for name in targets - parts - {"_SCENARIOS", "foreach"}:
        assert name in listed or any(f in listed and re.match(p, name) for f, p in families.items()), name
    for name in listed:
        assert name in targets | set(families), name


@pytest.mark.parametrize("argv", HELP, ids=" ".join)
def test_an_unknown_option_names_the_help_of_the_command(argv):
    done = run([*argv, "--no-such-option"])
    assert done.returncode == 64 and done.stdout == ""
    assert "--no-such-option" in done.stderr and " ".join([*argv, "--help"]) in done.stderr.splitlines()[-1]
