"""Memory runs out: in applications the library says so and nothing else happens; our programs end
with 71 and a word about it."""

import os
import re
import resource
import signal

import pytest

import harness

CONFIG = """
application = "app" # comment
queue = "%s"
database { conninfo = "%s sslmode=disable gssencmode=disable" }
mail { defer = 1 from = "a@example.org" }
function "f" { command = {"/bin/echo", "a", "b"} timeout = 5s max_attempts = 3 }
settings "geo" { url = "https://geo.example.org/" level = 3 }
"""


@pytest.fixture
def configured(db):
    db.config(CONFIG % ("x" * 200_000, db.conninfo))
    del db.env["DEFERRED_DB"]
    return db


if not harness.SAN:  # the sanitizer has an allocator, and an address space, of its own

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "what,how,children",
        [("defer", "one", "reap"), ("mail", "rest", "reap")]
        + [
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("open", "one", "none"),
                ("open", "rest", "ignore"),
                ("defer", "rest", "none"),
                ("mail", "one", "ignore"),
            )
        ],
    )
    def test_an_application_lives_through_every_allocation_that_fails(configured, what, how, children):
        """Whatever it does with SIGCHLD, it gets an error or what it asked for; it is not ended,
        does not hang, and has no child left."""
        done = configured.run(
            [os.path.join(harness.BUILD, "tests", "harness", "oom_call"), what, how, children], timeout=500
        )
        assert done.returncode == 0, done.stdout + done.stderr
        allocations, succeeded, refused = (int(w) for w in done.stdout.split() if w.isdigit())
        assert allocations == succeeded + refused and refused > 20, done.stdout
        assert done.stderr == ""

    @pytest.mark.parametrize("args", [["deferred", "ls"], ["check_deferred"], ["deferred_http"]], ids=lambda a: a[0])
    def test_a_program_without_memory_for_its_settings_ends_with_71_and_says_so(db, args):
        """In every address space between the one in which it does not load and the one that is enough. Before a program
        begins, the loader of glibc ends it, which says so, or in some spaces crashes."""
        functions = "".join(f'function "f{i}" {{ command = {{"/bin/echo", "a"}} timeout = 5s }}\n' for i in range(2000))
        db.config('database { conninfo = "host=/nowhere" } http { listen = "127.0.0.1:0" }\n' + functions)
        del db.env["DEFERRED_DB"]
        seen = {}
        for kb in range(16_000, 120_000, 250):
            done = db.run(
                args,
                env={"LD_DEBUG": "files"},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (kb * 1024, kb * 1024)),
                timeout=60,
            )
            begun = "transferring control: " in done.stderr
            said = re.sub(r"^ +\d+:\t.*\n?", "", done.stderr, flags=re.MULTILINE)
            if begun:
                assert done.returncode in (71, 69, 78) and said, (kb, done.returncode, done.stderr)
            elif done.returncode != -signal.SIGSEGV:
                assert done.returncode == 127, (kb, done.returncode, done.stderr)
                assert re.search("loading shared libraries|cannot allocate TLS", said), done.stderr
            seen.setdefault(done.returncode, []).append(said)
            if "/nowhere" in done.stderr:
                break
        assert any("cannot read the settings: out of memory" in text for text in seen[71]), seen
        assert "/nowhere" in done.stderr  # it was enough in the end
