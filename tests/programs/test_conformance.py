"""The libraries, and the programs that documents show, speak the protocol of deferred_program(7)."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from conformance import BASIC, CASES, LANGUAGES, Language, Program
from documents import literal, read, section


@pytest.mark.parametrize("title", CASES)
@pytest.mark.parametrize("name", LANGUAGES)
def test_a_library_passes(name, title):
    missing = LANGUAGES[name].missing()
    if missing:
        pytest.skip(missing)
    CASES[title](LANGUAGES[name])


def test_the_program_of_the_manual_needs_no_library(tmp_path):
    text, _, conversation = literal(section(read("lib", "deferred_program.7"), "EXAMPLES"))
    path = tmp_path / "greeter.py"
    path.write_text(text)
    with Program(Language([sys.executable, str(path)])) as program:
        assert program.call("greet", {"name": "Ann"}).text == "Hello Ann"
        assert program.call("greet", {}).outcome == "failed"
        program.end()
    for shown in re.findall(r"(?m)^[<>] (\{\"type.*(?:\n   .*)?)", conversation):
        json.loads(shown)


def page(language):
    """The program that the how-to page shows."""
    text = read("docs", "how-to", "programs-in-other-languages.md")
    return re.search(rf"(?ms)^```{language}\n(.*?)^```$", text)[1]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """{language: its command}, each made once."""
    folder, made = tmp_path_factory.mktemp("shown"), {}

    def make(language):
        if language not in made:
            path = folder / f"tasks.{language}"
            path.write_text(page(language))
            made[language] = [language, str(path)]
            if language == "go":
                made[language] = [str(folder / "tasks")]
                environ = {**os.environ, "GOCACHE": str(folder / "cache")}
                build = ["go", "build", "-o", made[language][0], str(path)]
                done = subprocess.run(build, env=environ, capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
        return Language(made[language])

    return make


@pytest.mark.parametrize("title", BASIC)
@pytest.mark.parametrize("language", ["ruby", "go"])
def test_a_program_of_the_how_to_page_passes(shown, language, title):
    if not shutil.which(language):
        pytest.skip(f"{language} is not installed")
    BASIC[title](shown(language))


@pytest.mark.parametrize("language", ["ruby", "go"])
def test_a_program_of_the_how_to_page_runs_in_a_worker(db, tmp_path, shown, language):
    if not shutil.which(language):
        pytest.skip(f"{language} is not installed")
    argv = shown(language).argv
    words = ", ".join(f'"{word}"' for word in [shutil.which(argv[0]), *argv[1:]])
    db.config(f'program "shown" {{ command = {{{words}}} }}\n')
    job = db.defer("echo", '{"a": 1}')
    done = db.run(["check_deferred", "--cnt", "0", "--plugin-dir", str(tmp_path)])
    assert done.returncode == 0, done.stderr
    assert db.sql("select outcome, result from deferred.__deferred_log where job_id = %s", job) == [("ok", '{"a":1}')]
