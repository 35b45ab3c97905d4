"""Write all generated files that are out of date, and print which."""

from __future__ import annotations

import sys

from hopgraph.cli.errors import Leave, reported
from hopgraph.generated.files import write


def main() -> int:
    """The command; its exit code."""
    try:
        with reported(sys.argv[1:]):
            for path in write():
                sys.stdout.write(f"{path}\n")
    except Leave as leave:
        return leave.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
