"""The `hopgraph` command, also as `python -m hopgraph`."""

from __future__ import annotations

from hopgraph.signals import stop_at_once


def main() -> None:
    """Run the command line of this process; ctrl-C is answered from here on, imports included."""
    stop_at_once()
    from hopgraph.cli import main as run

    run()


if __name__ == "__main__":
    main()
