"""Which file calls which, as nm(1) shows in the objects of a build: tiers of lib/engine, and no circles anywhere."""

import collections
import glob
import os
import subprocess

import pytest

import pg

BUILD = os.path.join(pg.TOP, os.environ.get("DEFERRED_BUILD", "build"))
# Lowest first. A file calls only files of lower tiers. Pure files also call each other.
TIERS = ("lib/engine/pure", "lib/engine/step", "lib/engine/cycle", "lib/engine")
# Files that still call each other in circles, by folder. A number may only fall.
CIRCLES_MAX = {
    "bin/deferred_runner": 4,
}


def symbols(path):
    """Symbols that an object file defines for others, and symbols that it lacks. "__" begins those of the compiler."""
    out = subprocess.run(["nm", "-P", "-g", path], capture_output=True, text=True, check=True).stdout
    rows = [line.split()[:2] for line in out.splitlines() if not line.startswith("__")]
    return {name for name, kind in rows if kind != "U"}, {name for name, kind in rows if kind == "U"}


def objects(folder, build=BUILD, top=pg.TOP):
    """{source: (symbols defined, symbols lacking)} of a folder and the folders below it."""
    sources = sorted(glob.glob(os.path.join(top, folder, "**", "*.c"), recursive=True))
    names = [os.path.relpath(source, top) for source in sources]
    return {name: symbols(os.path.join(build, "obj", name[: -len(".c")] + ".o")) for name in names}


def calls(folder, build=BUILD, top=pg.TOP):
    """{source: {other source: symbols}} of a folder and the folders below it."""
    found = objects(folder, build, top)
    home = {symbol: name for name, (defined, _) in found.items() for symbol in defined}
    edges = {name: collections.defaultdict(set) for name in found}
    for name, (_, lacking) in found.items():
        for symbol in lacking & home.keys():
            edges[name][home[symbol]].add(symbol)
    return edges


def circles(edges):
    """Sets of files that call each other, directly or through others (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(name):
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in edges[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in edges:
        if name not in index:
            visit(name)
    return found


def upward(edges, tiers):
    """Calls that do not lead to a lower tier, except within the lowest."""
    for name, others in edges.items():
        for other, used in others.items():
            if tiers.index(os.path.dirname(other)) >= max(tiers.index(os.path.dirname(name)), 1):
                yield f"{name} calls {other}: {', '.join(sorted(used))}"


def folders():
    return sorted(os.path.relpath(path, pg.TOP) for path in glob.glob(os.path.join(pg.TOP, "[lb]i[bn]", "*", "")))


def test_each_file_of_the_engine_calls_only_lower_tiers():
    edges = calls("lib/engine")
    assert {os.path.dirname(name) for name in edges} == set(TIERS)
    assert not list(upward(edges, TIERS))


def test_exported_names_of_the_engine_begin_with_the_name_of_their_file():
    for name, (defined, _) in objects("lib/engine").items():
        own = os.path.basename(name)[: -len(".c")]
        assert not {symbol for symbol in defined if symbol != own and not symbol.startswith(own + "_")}, name


@pytest.mark.parametrize("folder", folders())
def test_files_of_a_folder_do_not_call_in_circles(folder):
    found = circles(calls(folder))
    assert sum(map(len, found)) <= CIRCLES_MAX.get(folder, 0), f"in circles: {found}"


def test_a_circle_and_a_call_upwards_are_found(tmp_path):
    def compile_file(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        obj = tmp_path / "obj" / name.replace(".c", ".o")
        obj.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-c", str(path), "-o", str(obj)], check=True)

    compile_file("a/lowest.c", "int low(void); int lowest(void) { return low(); }")
    compile_file("a/low.c", "int high(void); int low(void) { return 1; } int up(void) { return high(); }")
    compile_file("b/high.c", "int low(void), middle(void); int high(void) { return low() + middle(); }")
    compile_file("b/middle.c", "int up(void); int middle(void) { return up(); }")
    compile_file("b/free.c", "int low(void); int free_of_it(void) { return low(); }")
    edges = {}
    for folder in ("a", "b"):
        edges.update(calls(folder, str(tmp_path), str(tmp_path)))
    assert circles(edges) == [] and list(upward(edges, ("a", "b"))) == ["b/high.c calls b/middle.c: middle"]
    edges = calls(".", str(tmp_path), str(tmp_path))
    assert circles(edges) == [["a/low.c", "b/high.c", "b/middle.c"]]
    assert sorted(upward(edges, ("a", "b"))) == ["a/low.c calls b/high.c: high", "b/high.c calls b/middle.c: middle"]
