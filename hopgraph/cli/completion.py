"""Shell completion of methods, indexes, prompts and threads. No heavy imports: it must be fast."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

LISTED = 50
"""Number of threads offered, the latest ones."""


def methods(incomplete: str) -> list[tuple[str, str]]:
    """Method ids with descriptions."""
    from hopgraph.methods import METHODS

    return [(name, about) for name, about in METHODS.items() if name.startswith(incomplete)]


def methods_and_all(incomplete: str) -> list[tuple[str, str]]:
    """Method ids after the last comma, and `all`."""
    done, comma, last = incomplete.rpartition(",")
    rows = [(f"{done}{comma}{name}", about) for name, about in methods(last)]
    return rows if comma or not "all".startswith(last) else [*rows, ("all", "every method")]


def modes(incomplete: str) -> list[str]:
    """Search modes."""
    return [mode for mode in ("bridge", "hybrid", "dense", "sparse") if mode.startswith(incomplete)]


def indexes(incomplete: str) -> list[str]:
    """Names of indexes."""
    from inference.settings import get_settings

    names = (path.parent.name for path in (get_settings().home / "indexes").glob("*/current"))
    return sorted(name for name in names if name.startswith(incomplete))


def prompt_files(incomplete: str) -> list[str]:
    """Names of prompts."""
    folder = Path(__file__).resolve().parents[2] / "prompts"
    names = (path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/*.md"))
    return sorted(name for name in names if name.startswith(incomplete))


def threads(incomplete: str) -> list[tuple[str, str]]:
    """Threads of `ask` with their questions, latest first; only from a file, not from a Postgres server."""
    import json
    import sqlite3

    from inference.settings import get_settings

    place = get_settings().checkpoints or str(get_settings().home / "checkpoints.sqlite")
    if "://" in place or not Path(place).is_file():
        return []
    address = f"{Path(place).resolve().as_uri()}?mode=ro"
    rows: list[tuple[str, str]] = []
    query = (
        "SELECT thread_id, metadata, MAX(checkpoint_id) FROM checkpoints WHERE checkpoint_ns = '' "
        "AND substr(thread_id, 1, ?) = ? GROUP BY thread_id ORDER BY 3 DESC LIMIT ?"
    )
    with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True, timeout=1)) as file:
        for thread, metadata, _ in file.execute(query, (len(incomplete), incomplete, LISTED)):
            about = {}
            with suppress(ValueError, TypeError):
                about = json.loads(json.loads(metadata or "{}").get("hopgraph", "{}"))
            rows.append((str(thread), " ".join(str(about.get("question", "")).split())[:80]))
    return rows
