"""An include goes down: what lies on a floor of the house may use those named here, and its own. `make lint` runs it.

    floors.py        exit status 1, and a line for each, if one goes up or sideways
"""

import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Floor: what it may include, beside itself and what others see (lib/include). port is the doors to foreign libraries, store the
# statements, run the child processes; engine alone sees both.
LIB = {"base": (), "port": ("base",), "store": ("base", "port"), "run": ("base", "port"),
       "engine": ("base", "port", "store", "run"), "api": ("base", "port", "store"), "program": ("base", "port", "store"),
       "plugins": ("base", "port")}
# Each program may include all of the library; the HTTP front has floors of its own.
HTTP = {"protocol": (), "front": ("protocol",), "server": ("protocol", "front")}


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
                    yield f"{os.path.relpath(path, TOP)}: includes {name}; {floor} may include {', '.join(lower) or 'nothing'}"


def main():
    found = [*wrong("lib", LIB, LIB), *wrong("bin/deferred_http", HTTP, HTTP)]
    found += [f"{os.path.relpath(path, TOP)}: lies on no floor" for path in glob.glob(os.path.join(TOP, "lib", "*.[ch]"))]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
