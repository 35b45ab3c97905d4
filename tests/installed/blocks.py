"""The commands of README.md and docs/*.md: fenced blocks, and comments that say how each of them is run.

Blocks marked sh or python are commands. They are run in order, page by page, each page in one shell and one Python
process: a block may use what an earlier block of its page has set, exported or written. In Python, `await` works at
the top level, as in a notebook. Blocks marked text, json, csv and the like are not run. A fence without a mark is a
fault.

A comment on the line above a fence changes what is done with it:

<!-- not run: REASON -->   this sh or python block is only shown; the reason is required.
<!-- file: NAME -->        the block is written to the file NAME in the page's folder, and not run.
<!-- serves: PATTERN -->   this sh block does not return. It is started in the background; the next block waits until
                           its output matches the regular expression PATTERN, or, if that is a number, until this port
                           on 127.0.0.1 accepts connections. At the end of the page it gets SIGINT and must exit
                           cleanly.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

RUN = ("sh", "python")
_NOTES = ("not run", "file", "serves")
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[^`]*)$")
_COMMENT = re.compile(r"^ *<!-- (?P<name>[a-z ]+?):(?P<value>.*)-->$")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: Name of its file.
        line: Of its opening fence, from 1.
        language: What stands behind the fence.
        code: Its text, without the indentation of the fence.
        notes: The comments above it, by name.
    """

    page: str
    line: int
    language: str
    code: str
    notes: dict[str, str]

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        """Whether it is run, and not only shown or written to a file."""
        return self.language in RUN and "not run" not in self.notes and "file" not in self.notes

    @property
    def problems(self) -> list[str]:
        """What is wrong with its marks."""
        found = []
        if not self.language:
            found.append(f"{self.place}: a fence needs a language (sh and python are run, text is not)")
        for name, value in self.notes.items():
            if name not in _NOTES:
                found.append(f"{self.place}: unknown comment '{name}'; there are: {', '.join(_NOTES)}")
            elif not value:
                found.append(f"{self.place}: '{name}' needs a value")
        if "not run" in self.notes and self.language not in RUN:
            found.append(f"{self.place}: '{self.language}' is never run, it needs no reason")
        if "serves" in self.notes and self.language != "sh":
            found.append(f"{self.place}: only sh blocks serve")
        return found


def read_blocks(path: Path, name: str | None = None) -> list[Block]:
    """The fenced blocks of a page, in order.

    Args:
        path: A Markdown file.
        name: What the blocks call it. Default: the file's name.

    Raises:
        ValueError: A fence is not closed.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    name = name or path.name
    blocks: list[Block] = []
    notes: dict[str, str] = {}
    number = 0
    while number < len(lines):
        fence, comment = _FENCE.match(lines[number]), _COMMENT.match(lines[number])
        if fence:
            end = _end(lines, number, fence["ticks"])
            if end is None:
                raise ValueError(f"{name}:{number + 1}: the fence is not closed")
            code = _without(fence["indent"], lines[number + 1 : end])
            blocks.append(Block(name, number + 1, fence["language"].strip(), code, notes))
            number = end
        notes = notes | {comment["name"].strip(): comment["value"].strip()} if comment else {}
        number += 1
    return blocks


def _end(lines: list[str], start: int, ticks: str) -> int | None:
    return next((n for n in range(start + 1, len(lines)) if lines[n].strip() == ticks), None)


def _without(indent: str, lines: list[str]) -> str:
    return "".join(f"{line.removeprefix(indent)}\n" for line in lines)


def shown(code: str) -> str:
    """A block as it stands in a message."""
    return textwrap.indent(code.rstrip("\n"), "    ")
