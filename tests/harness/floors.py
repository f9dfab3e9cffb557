"""Checks the layout of the tree. `make lint` runs it.

    floors.py        exit status 1, and a line for each fault

- A file includes only files of its own floor and of lower floors.
- Each source of the library has a test that names it.
- Each file that a comment names exists.
- No folder of lib, bin, sql or cron has more than 40 files of its own.
- The Makefile has at most 250 lines.
- Columns of a result are read by name.
- No two C files define a static function of one name, except as often as SHARED_NAMES_MAX says.
- No two files of lib, bin and sql have the same name, except main.c.
"""

import collections
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Floor: what it may include, beside itself and what others see (lib/include). port is the doors to
# foreign libraries, store the statements, run the child processes; engine alone sees both. http is
# what programs that serve HTTP share, and in no library.
LIB = {
    "base": (),
    "port": ("base",),
    "store": ("base", "port"),
    "run": ("base", "port"),
    "http": ("base", "port"),
    "engine": ("base", "port", "store", "run"),
    "api": ("base", "port", "store"),
    "program": ("base", "port", "store"),
    "plugins": ("base", "port"),
}
FILES_MAX, MAKEFILE_MAX = 40, 250
NUMBERED = re.compile(r"\bpg_(?:int|text|bool|null|float|tid)\([^;]*?, *\d+(?:, NULL)?\)")
# How many static functions of a folder have a name that another file uses too. A number may only fall.
SHARED_NAMES_MAX = {
    "bin/deferred_backtrace": 1,
    "bin/deferred_runner": 12,
    "lib/api": 5,
    "lib/engine": 25,
    "lib/port": 25,
    "lib/run": 12,
    "lib/store": 23,
}
STATIC_FUNCTION = re.compile(r"(?m)^static (?!__attribute__)[^;=\n()]*?\b((?!__)\w+)\(")
# Each program may include all of the library; the HTTP front has floors of its own.
HTTP = {"protocol": (), "front": ("protocol",), "api": ("protocol", "front")}


def includes(path):
    with open(path) as f:
        return re.findall(r'(?m)^#include "([^"]+)"', f.read())


def wrong(folder, floors, names):
    """Includes of one that is none of those it may."""
    for floor, lower in floors.items():
        for path in sorted(glob.glob(os.path.join(TOP, folder, floor, "**", "*.[ch]"), recursive=True)):
            for name in includes(path):
                other = name.split("/")[0] if "/" in name else None
                if other in names and other not in (floor, *lower):
                    may = ", ".join(lower) or "nothing"
                    yield f"{os.path.relpath(path, TOP)}: includes {name}; {floor} may include {may}"


def untested():
    """Sources of the library that no test names. A file of tests names a source by NAME_test.c or test_NAME.py. The
    floor stands in front if another floor has a source of that name. A mutant names a source by breaking it, because
    it names a test. Sources of lib/http are tested from outside, by tests/http and tests/web."""
    sources = sorted(
        path
        for path in glob.glob(os.path.join(TOP, "lib", "**", "*.c"), recursive=True)
        if os.path.basename(os.path.dirname(path)) != "http"
    )
    names = collections.Counter(os.path.basename(path)[: -len(".c")] for path in sources)
    tests = {os.path.basename(path) for path in glob.glob(os.path.join(TOP, "tests", "*", "*.*"))}
    broken = set()
    for path in glob.glob(os.path.join(TOP, "tests", "mutants", "*.txt")):
        with open(path) as f:
            broken.update(re.findall(r"(?m)^file: (\S+)", f.read()))
    for path in sources:
        name, floor = os.path.basename(path)[: -len(".c")], os.path.basename(os.path.dirname(path))
        known = {f"{floor}_{name}", *([name] if names[name] == 1 else [])}
        if os.path.relpath(path, TOP) not in broken and not any({f"{n}_test.c", f"test_{n}.py"} & tests for n in known):
            named = " nor ".join(f"tests/lib/{n}_test.c" for n in sorted(known))
            yield f"{os.path.relpath(path, TOP)}: no test names it: neither {named}, nor a mutant"


def misnamed():
    """Files that a comment of lib or bin names, and that are neither in the tree nor headers of
    others. A name without a folder may lie in any; "*" and NAME stand for any name. An example that
    is compiled by "cc" need not be there."""
    sources = [
        path
        for folder in ("lib", "bin")
        for path in glob.glob(os.path.join(TOP, folder, "**", "*.[ch]"), recursive=True)
    ]
    there = [
        os.path.relpath(path, TOP)
        for folder in ("lib", "bin", "sql", "tests", "cron")
        for path in glob.glob(os.path.join(TOP, folder, "**", "*.*"), recursive=True)
    ]
    there += ["build/gen/sql.h", "build/gen/rows/NAME.h"]
    for path in sources:
        with open(path) as f:
            there += re.findall(r"(?m)^#include <([^>]+)>", f.read())
    known = "\n".join(there)
    for path in sorted(sources):
        with open(path) as f:
            text = f.read()
        for comment in re.findall(r"/\*.*?\*/", text, re.S):
            for name in re.findall(r"[\w./*-]*\w\.(?:[ch]|sql|py|awk|sh|md)\b", re.sub(r" cc .*", "", comment)):
                pattern = re.escape(name).replace(r"\*", r"[\w]*").replace("NAME", r"[\w]+")
                if not re.search(rf"(?m)^(?:.*/)?{pattern}$", known):
                    yield f"{os.path.relpath(path, TOP)}: a comment names {name}, which is not there"
            for function, name in re.findall(r"(\w+) \(((?:lib|bin)/[\w/]+\.c)", comment):
                with open(os.path.join(TOP, name)) as f:
                    if f"{function}(" not in f.read():
                        where = os.path.relpath(path, TOP)
                        yield f"{where}: a comment looks for {function} in {name}, where it is not"


def crowded():
    """Folders with too many files, and files that lie outside the folder of their subject."""
    for folder in ("lib", "bin", "sql", "cron"):
        for at, _, names in os.walk(os.path.join(TOP, folder)):
            path, files = os.path.relpath(at, TOP), len([name for name in names if not name.endswith(".pyc")])
            if files > FILES_MAX:
                yield f"{path}: has {files} files; at most {FILES_MAX} are allowed"
            if path in ("sql/functions", "sql/queries"):
                yield from (f"{path}/{name}: lies in no folder of a subject" for name in names)
    with open(os.path.join(TOP, "Makefile")) as f:
        if (lines := len(f.readlines())) > MAKEFILE_MAX:
            yield f"Makefile: has {lines} lines; at most {MAKEFILE_MAX} are allowed"


def namesakes():
    """Names of more than one file. pytest imports tests by their names."""
    paths = collections.defaultdict(list)
    for path in sorted(glob.glob(os.path.join(TOP, "tests", "**", "test_*.py"), recursive=True)):
        paths[os.path.basename(path)].append(os.path.relpath(path, TOP))
    for folder in ("lib", "bin", "sql"):
        for kind in ("c", "h", "sql"):
            for path in sorted(glob.glob(os.path.join(TOP, folder, "**", f"*.{kind}"), recursive=True)):
                paths[os.path.basename(path)].append(os.path.relpath(path, TOP))
    for name, those in sorted(paths.items()):
        if len(those) > 1 and name != "main.c":
            yield f"{those[0]}: has the name of {', '.join(those[1:])}"


def numbered():
    """Columns of results that are read by number, where a row by name exists."""
    for folder in ("lib", "bin"):
        for path in sorted(glob.glob(os.path.join(TOP, folder, "**", "*.c"), recursive=True)):
            with open(path) as f:
                if found := NUMBERED.findall(f.read()):
                    yield f"{os.path.relpath(path, TOP)}: reads {len(found)} columns by number; name them"


def same_names():
    """Static functions that cannot be found by their name alone: another file has one of the same name, too."""
    files = collections.defaultdict(set)
    for folder in ("lib", "bin"):
        for path in glob.glob(os.path.join(TOP, folder, "**", "*.c"), recursive=True):
            with open(path) as f:
                for name in STATIC_FUNCTION.findall(f.read()):
                    files[name].add(os.path.relpath(path, TOP))
    shared = [(path, name) for name, paths in files.items() if len(paths) > 1 for path in paths]
    folders = collections.Counter("/".join(path.split("/")[:2]) for path, _ in shared)
    for folder, n in sorted(folders.items()):
        most = SHARED_NAMES_MAX.get(folder, 0)
        if n > most:
            names = ", ".join(sorted({name for path, name in shared if path.startswith(folder + "/")}))
            yield f"{folder}: another file has a function of that name; {n} are such, at most {most} may be: {names}"


def main():
    found = [
        *crowded(),
        *wrong("lib", LIB, LIB),
        *wrong("bin/deferred_http", HTTP, HTTP),
        *untested(),
        *misnamed(),
        *namesakes(),
        *numbered(),
        *same_names(),
    ]
    found += [
        f"{os.path.relpath(path, TOP)}: lies on no floor" for path in glob.glob(os.path.join(TOP, "lib", "*.[ch]"))
    ]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
