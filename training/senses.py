"""Builds the table of word senses that `inference/heads/hops.py` reads, from WordNet's own index files.

    apt-get install wordnet-base
    python -m training.senses /usr/share/wordnet

WordNet's licence is beside the table: `inference/heads/wordnet/LICENSE.txt`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from inference.errors import InputError
from training.command import WEIGHTS, guarded, parser

PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
TABLE = WEIGHTS / "wordnet" / "senses.txt"
HEADER = """\
# Words with more than one sense in WordNet 3.0, all parts of speech together, and how many senses.
# Made by training/senses.py from Debian's package wordnet-base; licence: LICENSE.txt beside this file.
"""


def count_senses(folder: Path) -> Counter[str]:
    """Senses of each single word of WordNet, over all parts of speech.

    Args:
        folder: Holds `index.noun`, `index.verb`, `index.adj` and `index.adv`.

    Raises:
        InputError: One of them is missing, or a line of it is not an index line.
    """
    senses: Counter[str] = Counter()
    for part in PARTS_OF_SPEECH:
        path = folder / f"index.{part}"
        try:
            lines = path.read_text("utf-8").splitlines()
        except OSError as error:
            hint = "apt-get install wordnet-base, and give the folder /usr/share/wordnet"
            raise InputError(f"{path}: can't be read ({error.strerror})", hint=hint) from error
        for number, line in enumerate(lines, start=1):
            if line.startswith(" ") or not line:  # the licence, which opens each file
                continue
            fields = line.split()
            if len(fields) < 3 or not fields[2].isdecimal():
                raise InputError(f"{path}, line {number}: field 3, the number of senses, is not a number", hint="")
            if "_" not in fields[0]:
                senses[fields[0]] += int(fields[2])
    return senses


def write_table(senses: Counter[str], path: Path) -> int:
    """Write the words with more than one sense, in alphabetical order; returns their number."""
    rows = sorted((word, count) for word, count in senses.items() if count > 1)
    path.write_text(HEADER + "".join(f"{word}\t{count}\n" for word, count in rows), "utf-8")
    return len(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    flags = parser("senses", "Build the word-sense table from WordNet's index files.")
    flags.add_argument("folder", type=Path, help="WordNet's dictionary folder, such as /usr/share/wordnet")
    flags.add_argument("--to", type=Path, default=TABLE, help="file to write")
    options = flags.parse_args(arguments)
    return guarded(lambda: f"{write_table(count_senses(options.folder), options.to)} words: {options.to}\n")


if __name__ == "__main__":
    sys.exit(main())
