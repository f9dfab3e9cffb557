"""The pages of docs/reference say what the programs, the manual pages and the source say."""

import json
import re

import pytest

from documents import read, section


def rows(page, heading=""):
    """The cells of each row of the tables below a heading."""
    text = read("docs", "reference", page).split(heading, 1)[1] if heading else read("docs", "reference", page)
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"(?m)^\|.*\|$", text)]
    return [row for row in found if not re.fullmatch(r"[-:]+", row[0])]


def codes(text):
    return {int(code) for line in re.findall(r"(?m)^\.It ([\d ,]+)$", text) for code in re.findall(r"\d+", line)}


@pytest.mark.parametrize(
    "letter, page",
    [
        ("C", "bin/check_deferred/check_deferred.1"),
        ("D", "bin/deferred/deferred.1"),
        ("H", "bin/deferred_http/deferred_http.8"),
        ("W", "bin/deferred_web/deferred_web.8"),
    ],
)
def test_the_exit_codes_of_a_program_are_those_of_its_manual_page(letter, page):
    listed = {
        int(code) for code, _, programs in [r for r in rows("exit-codes.md") if len(r) == 3][1:] if letter in programs
    }
    assert listed == codes(section(read(page), "EXIT STATUS"))


def test_the_exit_codes_of_functions_are_those_of_the_manual_page():
    page = read("cron", "deferred.conf.5")
    described = codes(page[page.index("The exit code is the outcome") : page.index(".Ss Schedules")])
    listed = [code for code, _ in rows("exit-codes.md", "## Exit codes of a function")[1:]]
    assert {int(code) for code in listed if code.isdigit()} == described


@pytest.mark.parametrize("enum, column", [("JOB_STATES", "state"), ("JOB_OUTCOMES", "outcome")])
def test_the_states_and_outcomes_are_those_of_the_source(enum, column):
    source = re.search(rf"#define {enum}\(X\).*?\n\n", read("lib", "base", "job.h"), re.S)[0]
    table = rows("life-of-a-job.md", "" if column == "state" else "## Outcomes")
    assert table[0][0] == column
    first = [row[0].strip("`") for row in table]
    listed = first[1 : first.index("outcome")] if column == "state" else first[1:]
    assert sorted(listed) == sorted(re.findall(r'"(\w+)"', source))
    if column == "state":
        drawn = read("docs", "reference", "life-of-a-job.md").split("```")[1]
        assert all(re.search(rf"\b{state}\b", drawn) for state in listed)


def test_the_fields_of_log_lines_are_those_of_the_source():
    source = read("lib", "base", "log.c")
    source = source[source.index("static void add_fields(") :]
    written = set(re.findall(r'add_(?:string|number|name)\(line, "(\w+)"', source[: source.index("\n}\n")])) | {"ts"}
    table = rows("log-lines.md", "## Fields")[1:]
    assert {name for row in table for name in re.findall(r"`(\w+)`", row[0])} == written
    for setting, values, default in rows("log-lines.md")[1:3]:
        name = setting.split("`")[1]
        choices = re.search(rf'CHOICE\("{name}", "(\w+)", "([\w|]+)"', read("lib", "port", "config_table.c"))
        assert (default.strip("`"), re.findall(r"\w+", values)) == (choices[1], choices[2].split("|"))


def test_the_line_of_json_has_the_fields_of_a_real_one(db):
    shown = json.loads(re.search(r"(?ms)^```json\n(.*?)^```", read("docs", "reference", "log-lines.md"))[1])
    db.defer("fail", max_attempts=1)
    said = db.run(["check_deferred", "--log-format", "json"]).stderr
    (real,) = [line for line in map(json.loads, said.splitlines()) if line["event"] == "attempt"]
    assert list(shown) == list(real)
    same = ("level", "program", "event", "attempt", "final", "outcome", "queue", "fn")
    assert [shown[name] for name in same] == [real[name] for name in same]
