"""usage: python3 -m deferred MODULE
       python3 -m deferred call MODULE FUNCTION [PARAMS]

The first form serves a worker with the functions of the module. Without a worker it prints them.
The second form calls one function in this process, for example under a debugger.
"""

import importlib
import json
import os
import sys
from typing import List

import deferred
import deferred.testing


def complain(text: str, hint: str) -> int:
    print(f"deferred: {text}\nhint: {hint}", file=sys.stderr)
    return 1


def call(fn: str, params: str = "{}") -> int:
    try:
        given = json.loads(params)
    except json.JSONDecodeError as error:
        return complain(f"params '{params}' are not JSON ({error})", """write them as '{"name": "Ann"}'""")
    done = deferred.testing.call(fn, given)
    for line in done.logged:
        print(line, file=sys.stderr)
    for job in done.deferred:
        print(f"deferred: {job.fn} {deferred.to_json(job.params)}", file=sys.stderr)
    print(done.text if done.outcome == "ok" else f"{done.outcome}: {done.text}")
    return done.outcome != "ok"


def main(arguments: List[str]) -> int:
    one = arguments[0:1] == ["call"] and len(arguments) in (3, 4)
    if not one and len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, end="", file=sys.stderr)
        return 64
    name = arguments[1 if one else 0]
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise  # the module was found, and imports another
        if name.endswith(".py"):
            return complain(f"module '{name}' does not exist", f"write '{name[:-3]}', without .py")
        hint = "name the folder of the module by 'directory' of the program, or in PYTHONPATH"
        return complain(f"module '{name}' does not exist (folder {os.getcwd()})", hint)
    if one:
        return call(*arguments[2:])
    deferred.run(getattr(module, "__version__", ""))
    print("no worker started this process; the module has these functions:", *deferred.functions, sep="\n    ")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
