"""Completion of bash and zsh (bin/completion.awk, lib/program/completion.c): whatever the tables of
the programs have is offered, by real shells, and it is what --help tells."""

import os
import re
import subprocess

import pytest

import harness

PROGRAMS = sorted(os.listdir(os.path.join(harness.BUILD, "completion/bash"))) if not harness.SAN else []
pytestmark = pytest.mark.skipif(harness.SAN, reason="made of the tables, which one build shows as well as another")


def tables(name):
    """{place: {"word": {name: takes}, "option": {...}}}, as the program tells it."""
    told = {}
    for line in subprocess.run(
        [harness.program(name), "--describe"], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        place, kind, what, takes, _ = line.split("\t")
        told.setdefault(place, {"word": {}, "option": {}})[kind][what] = takes
    return told


def bash(name, lines):
    """What each line, a list of words, is completed to at the end of its last word."""
    script = [f"source {harness.BUILD}/completion/bash/{name}"]
    for words in lines:
        script.append(
            "COMP_WORDS=("
            + " ".join(f"'{w}'" for w in words)
            + f") COMP_CWORD={len(words) - 1}; _{name}; echo \"${{COMPREPLY[*]}}\""
        )
    done = subprocess.run(["bash", "--norc", "-s"], input="\n".join(script), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [set(line.split(" ")) - {""} for line in done.stdout.split("\n")[:-1]]


# A zsh with a terminal of its own, whose matches are written down as they are added.
ZSH = r"""
zmodload zsh/zpty
zpty -b shell zsh -f -i
said() { local line; zpty -r -m shell line "*$1*" }
zpty -w shell 'PS1= PS2= RPS1= LISTMAX=1000; unsetopt zle_bracketed_paste;' \
    'fpath=(%(fpath)s ${(M)fpath:#*/Completion(|/Base|/Unix|/Zsh)})'
zpty -w shell 'autoload -U compinit; compinit -D -u'
zpty -w shell 'compadd() { local -a found; builtin compadd -A found "$@" 2>/dev/null;' \
    '[[ ${@[(I)-[ADO]]} == 0 ]] && print -l -- $found >>%(out)s; builtin compadd "$@" }'
zpty -w shell 'complete-and-tell() { print -r -- "> $LBUFFER" >>%(out)s;' \
    'zle complete-and-list; BUFFER=; zle reset-prompt; print -r -- done-$((++told)) }'
zpty -w shell 'zle -C complete-and-list list-choices _main_complete;' \
    'zle -N complete-and-tell; bindkey "^I" complete-and-tell; print rea""dy'
said ready
n=0
for line in %(lines)s; do
	zpty -w -n shell "$line"$'\t'
	said done-$((++n))
done
zpty -d shell
"""


def zsh(lines, tmp_path):
    out = os.path.join(tmp_path, "matches")
    script = ZSH % {
        "fpath": f"{harness.BUILD}/completion/zsh",
        "out": out,
        "lines": " ".join(f"'{line}'" for line in lines),
    }
    subprocess.run(
        ["zsh", "-f", "-c", script],
        check=True,
        timeout=30,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "ZDOTDIR": str(tmp_path), "TERM": "dumb", "PATH": os.environ["PATH"]},
    )
    with open(out) as f:
        parts = re.split(r"(?m)^> (.*)\n", f.read())[1:]
    return {line: set(text.split("\n")) - {""} for line, text in zip(parts[::2], parts[1::2])}


@pytest.mark.parametrize("name", PROGRAMS)
def test_bash_offers_each_word_option_and_value_of_the_tables(name, tmp_path):
    told = tables(name)
    wanted = {}
    for place, has in told.items():
        words = place.split(" ")
        wanted[*words, ""] = set(has["word"])
        wanted[*words, "--"] = set(has["option"])
        for option, takes in has["option"].items():
            values = set(takes.split("|")) if takes and takes[0] != "<" else set()
            if takes in ("<file>", "<folder>"):
                continue
            # An option that takes nothing leaves things as they were; one that takes anything
            # offers nothing, and no option after it.
            wanted[*words, option, ""] = values if takes else set(has["word"])
            if takes and len(words) < 3:
                wanted[*words, option, "="] = values
                wanted[*words, f"{option}="] = {f"{option}={v}" for v in values}
                wanted[*words, option, "=", "x", "--"] = set(has["option"])
    os.makedirs(tmp_path / "folder")
    (tmp_path / "file").touch()
    wanted[name, "--config", f"{tmp_path}/f"] = {f"{tmp_path}/file", f"{tmp_path}/folder"}
    assert dict(zip(wanted, bash(name, wanted))) == wanted
    folders = [
        [*place.split(" "), o, f"{tmp_path}/f"]
        for place, has in told.items()
        for o, takes in has["option"].items()
        if takes == "<folder>"
    ]
    assert all(offered == {f"{tmp_path}/folder"} for offered in bash(name, folders))


def test_zsh_offers_each_word_option_and_value_of_the_tables(tmp_path):
    # A shell with a terminal is slow: a table that stands at several places is looked at once, of
    # its choices the first.
    wanted, seen = {}, []
    for name in PROGRAMS:
        for place, has in tables(name).items():
            if has["word"]:
                wanted[f"{place} "] = set(has["word"])
            if not has["option"] or has["option"] in seen:
                continue
            seen.append(has["option"])
            wanted[f"{place} --"] = set(has["option"])
            choice = next((o for o, takes in has["option"].items() if takes and takes[0] != "<"), None)
            if choice:
                wanted[f"{place} {choice} "] = set(has["option"][choice].split("|"))
    assert zsh(wanted, tmp_path) == wanted


def test_the_tables_have_the_words_that_help_tells():
    told = tables("deferred")
    for command in set(told["deferred"]["word"]) - {"help"}:
        text = subprocess.run(
            [harness.program("deferred"), "help", command], capture_output=True, text=True, check=True
        ).stdout
        words = {w for line in re.findall(rf"deferred {command} ([a-z][a-z|]*)", text) for w in line.split("|")}
        assert set(told.get(f"deferred {command}", {"word": ()})["word"]) == words, command
    assert told["deferred add"]["option"]["--on-duplicate"] == "skip|error|replace|update"
    assert told["deferred account add"]["option"]["--keys"] == "<file>"
    assert told["deferred run"]["option"]["--plugin-dir"] == "<folder>"


@pytest.mark.parametrize("name", ["check_deferred", "deferred", "deferred_http", "deferred_web"])
def test_an_abbreviated_option_is_refused(name):
    """A new option would make it ambiguous, and break the scripts that use it."""
    tried = 0
    for place, told in tables(name).items():
        for option, takes in told["option"].items():
            short = option[:-1]
            if any(o.startswith(short) and o != option for o in told["option"]):
                continue
            for given in [[short + "=1"], [short, "1"]] if takes else [[short]]:
                done = subprocess.run(
                    [harness.program(name), *place.split()[1:], *given], capture_output=True, text=True
                )
                said = f"{name}: option '{option}' is abbreviated\nhint: write {option}\n"
                assert (done.returncode, done.stderr) == (64, said)
                tried += 1
    assert tried >= 10


# The manual pages say what the empty text means for these.
EMPTY = {
    "check_deferred": {"--balance", "--health"},
    "deferred_http": {"--listen", "--listen-tls", "--listen-metrics", "--access-log"},
    "deferred_web": {"--listen", "--listen-tls", "--listen-metrics", "--access-log"},
    "deferred add": {"--label"},
    "deferred rule add": {"--label"},
    "deferred schedule set": {"--label"},
    "deferred spans": {"--endpoint"},
    "deferred update": {"--to-label", "--max-attempts", "--timeout"},
}


@pytest.mark.parametrize("name", ["check_deferred", "deferred", "deferred_http", "deferred_web"])
def test_an_empty_value_is_refused(name):
    """It often comes from a shell variable that is not set. It would mean all queues, or another pidfile."""
    tried = 0
    for place, told in tables(name).items():
        if place in ("deferred queue set", "deferred function set"):
            continue  # a setting goes back to its default
        for option, takes in told["option"].items():
            if not takes or option in EMPTY.get(place, ()):
                continue
            for given in [option, ""], [option + "="]:
                done = harness.run([name, *place.split()[1:], *given], {"DEFERRED_DB": "host=/nonexistent"})
                said = (
                    f"{name}: option '{option}' has an empty value\n"
                    f"hint: leave {option} out, or give it a value (is a shell variable not set?)\n"
                )
                assert (done.returncode, done.stderr, done.stdout) == (64, said, "")
                tried += 1
    assert tried >= 10


def test_a_list_of_queues_has_no_empty_element(db):
    """A template of a file or of the environment may leave one. An empty DEFERRED_QUEUE counts as not set."""
    db.defer("noop")
    for given in ["mail,"], [","], ["mail", " "], ["mail", ",b"]:
        done = db.run(["check_deferred", *[word for queue in given for word in ("--queue", queue)]])
        assert done.returncode == 64 and "setting 'queue': queue name '' is invalid; hint: " in done.stderr, done
    done = db.run(["check_deferred"], env={"DEFERRED_QUEUE": "mail,"})
    assert done.returncode == 78 and "setting 'queue': queue name '' is invalid; hint: " in done.stderr, done
    assert db.one("select count(*) from deferred.__deferred_hot") == 1
    assert db.run(["check_deferred"], env={"DEFERRED_QUEUE": ""}).returncode == 0
    assert db.one("select count(*) from deferred.__deferred_hot") == 0
