"""Runs a page's Python blocks one after another in one namespace: `driver.py COMMANDS REPLIES` (file descriptors).

It is run by the Python of the place under test and imports nothing of the tests.
"""

import ast
import asyncio
import inspect
import json
import linecache
import os
import sys
import traceback
import types
from pathlib import Path


def main() -> None:
    """Read a file name a line, run the file, reply with a line."""
    commands, replies = os.fdopen(int(sys.argv[1])), os.fdopen(int(sys.argv[2]), "w", buffering=1)
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    with asyncio.Runner() as runner:
        for line in commands:
            path, place = json.loads(line)
            replies.write(f"{run(path, place, module.__dict__, runner)}\n")


def run(path: str, place: str, names: dict, runner: asyncio.Runner) -> int:
    """0 if the block ran to its end. A loop runs only while a block awaits something, as in a script."""
    source = Path(path).read_text(encoding="utf-8")
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    try:
        code = compile(source, place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(_waited(eval(code, names)))
        else:
            exec(code, names)
    except (Exception, SystemExit):
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
    return 0


async def _waited(coroutine) -> None:
    await coroutine


main()
