"""What is known of a crash: file, symbol and line of each frame."""

import json
import os
import random
import re
import shutil
import subprocess

import pytest

import harness
import pg

SOURCE = r'''
#include <deferred_plugin.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
static void __attribute__((noinline)) inner(volatile int *p) {
#line 100 "folder/inner.c"
	*p = 1;
}
int outer(const struct deferred_call *call) {
	volatile int *volatile nowhere = (volatile int *)getenv(call->fn ? "NOWHERE" : "");
#line 200
	inner(nowhere);
	return nowhere == 0;
}
int stop(const struct deferred_call *call) {
	(void)call;
#line 300
	abort();
}
int liar(const struct deferred_call *call) {
	for (int i = 0; i < 300; i++)
		fprintf(stderr, "before %d\n", i);
	fputs("no line end\036forged \033[31m\302\233 \036\nframe\n", stderr);
	for (int i = 0; i < 3000; i++)
		fputs("garbage ", stderr);
	return outer(call);
}
static const struct deferred_function functions[] = {
	{ .name = "outer", .run = outer },
	{ .name = "stop", .run = stop },
	{ .name = "liar", .run = liar },
};
DEFERRED_PLUGIN("crasher", "1", functions);
'''


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """The path of a plugin with debug information, in a folder that is a plugin folder."""
    folder = tmp_path_factory.mktemp("crasher")
    folder.chmod(0o755)
    (folder / "crasher.c").write_text(SOURCE)
    subprocess.run(
        [
            "cc",
            "-g",
            "-O0",
            "-shared",
            "-fPIC",
            f"-I{pg.TOP}/lib/include",
            "-o",
            folder / "crasher.so",
            folder / "crasher.c",
        ],
        check=True,
    )
    return str(folder / "crasher.so")


def error_of(plugin, fn, program="deferred", **env):
    done = harness.run(
        [program, "run", "--json", "--plugin-dir", os.path.dirname(plugin), fn],
        env={**harness.base_env(), "DEFERRED_CONFIG": "/dev/null", **env},
    )
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)["error"]


def has_lines():
    return (
        "libdw" in subprocess.run(["ldd", harness.program("deferred_backtrace")], capture_output=True, text=True).stdout
    )


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_a_crash_names_file_symbol_and_line_as_far_as_the_plugin_tells(plugin, isolate, tmp_path):
    tmp_path.chmod(0o755)
    copy = str(tmp_path / "crasher.so")
    lines = (" inner.c:100", " inner.c:200") if has_lines() else ("", "")
    for strip, frames in (
        ([], (f"crasher.so(inner+0x_){lines[0]}", f"crasher.so(outer+0x_){lines[1]}")),
        (["-g"], ("crasher.so(inner+0x_)", "crasher.so(outer+0x_)")),
        (["-S"], ("crasher.so+0x_", "crasher.so(outer+0x_)")),
    )[: 3 if isolate == "child" else 1]:
        subprocess.run(["objcopy", *(strip or ["--preserve-dates"]), plugin, copy], check=True)
        os.chmod(copy, 0o755)
        first, title, *told = error_of(copy, "outer", DEFERRED_ISOLATE=isolate).split("\n")
        assert first == "killed by signal 11 (Segmentation fault)" and re.fullmatch(
            r"in plugin crasher 1 \w+:|in plugin crasher 1:", title
        ), title
        assert tuple(re.sub("0x[0-9a-f]+", "0x_", line) for line in told[:2]) == frames, told
        assert re.fullmatch(r"deferred_runner\(run_function\+0x\w+\)( call\.c:\d+)?", told[2]), told
    stopped = error_of(plugin, "stop", DEFERRED_ISOLATE=isolate)
    assert "killed by signal 6" in stopped and re.search(
        r"\ncrasher.so\(stop\+0x\w+\)" + (" inner.c:300" if has_lines() else ""), stopped
    )


def test_what_a_function_forges_is_bounded_and_clean(plugin):
    error = error_of(plugin, "liar")
    assert (
        "before 299\nno line end\nforged ?[31m??" in error and "before 0\n" not in error and "garbage garbage" in error
    )
    assert len(error) < 7000 and re.fullmatch(r"[\n -~]*", error)


def test_without_the_program_that_names_them_there_are_file_and_offset(plugin, tmp_path):
    for name in ("deferred", "deferred_runner"):
        shutil.copy(harness.program(name), tmp_path)
    tmp_path.chmod(0o755)
    error = error_of(plugin, "outer", program=str(tmp_path / "deferred"))
    assert re.search(r":\ncrasher\.so\+0x\w+\ncrasher\.so\+0x\w+\ndeferred_runner\+0x\w+\n", error), error


def test_no_file_and_no_line_makes_it_do_more_than_say_less(plugin, tmp_path):
    with open(plugin, "rb") as f:
        whole = f.read()
    rng = random.Random(1)
    files = [b"", b"\x7fELF", whole[:64], whole[: len(whole) // 2], os.urandom(4096)]
    for _ in range(50):
        bad = bytearray(whole)
        for _ in range(rng.choice((1, 4, 40))):
            # Heads, and tables at the end of the file.
            at = rng.choice((rng.randrange(64), len(whole) - 1 - rng.randrange(4000), rng.randrange(len(whole))))
            bad[at] = rng.randrange(256)
        files.append(bytes(bad))
    paths = [str(tmp_path / f"{i}.so") for i in range(len(files))]
    for path, data in zip(paths, files):
        with open(path, "wb") as f:
            f.write(data)
    os.mkfifo(tmp_path / "fifo")
    paths += [
        str(tmp_path / "fifo"),
        str(tmp_path),
        "/dev/zero",
        str(tmp_path / "none"),
        str(tmp_path / "esc\x1b[31m\u202e.so"),
    ]
    outer = re.search(
        r" ([0-9a-f]+) .* outer$",
        "\n".join(subprocess.run(["nm", plugin], capture_output=True, text=True).stdout.splitlines()),
        re.M,
    )
    address = outer[1] if outer else "1139"
    ask = lambda text: harness.run([harness.program("deferred_backtrace")], input=text)
    done = ask("".join(f"{address} 1 {path}\n" for path in paths))
    told = done.stdout.splitlines()
    assert done.returncode == 0 and len(told) == len(paths), done
    assert (
        told[0].startswith("0.so+0x")
        and told[-1].startswith("esc?[31m")
        and told[-4].startswith(os.path.basename(tmp_path) + "+0x")
        and "\x1b" not in done.stdout
    )
    assert all(re.fullmatch(r"[ -~]{1,300}", line) for line in told)
    done = ask(
        "\n\nzz 1 /x\n12\n12 1\n12 1 \nffffffffffffffffffff 0 /\n0 1 relative\n" + f"0 1 {plugin}\n" * 500 + "1" * 40000
    )
    assert done.returncode == 0 and len(done.stdout.splitlines()) <= 64


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_of_the_crashes_of_a_function_in_a_minute_one_is_told_with_symbols(db, plugin, isolate):
    """The others hold up their runner for less time, and say file and offset."""
    db.env["DEFERRED_PLUGIN_DIR"] = os.path.dirname(plugin)
    jobs = [db.defer(fn, max_attempts=1) for fn in ("outer", "outer", "outer", "stop")]
    done = db.run(["check_deferred", "--cnt", "0", "--runners", "1", f"--isolate={isolate}"])
    assert done.returncode == 0, done.stderr
    errors = [
        db.one("select error from deferred.__deferred_log where job_id = %s and outcome = 'crashed'", job)
        for job in jobs
    ]
    named = ["crasher.so(" in error for error in errors]
    assert sorted(named[:3]) == [False, False, True] and named[3], "in whatever order they ran"
    assert [("crasher.so+0x" in error) for error in errors] == [not name for name in named]
    harness.ledger(db)
