"""Saves the local server's list of runs as soon as one begins; the server itself does so every ten seconds."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

_writing = asyncio.Lock()
"""Keeps writes in order."""


async def save_runs() -> None:
    """Write the list of runs, so that a server started after a kill resumes unfinished ones."""
    from langgraph_runtime_inmem.database import GLOBAL_STORE, OPS_FILENAME

    async with _writing:
        packed = io.BytesIO()
        GLOBAL_STORE.dump(packed)  # in the event loop, so that nothing changes the list meanwhile
        await asyncio.to_thread(_replace, Path(OPS_FILENAME), packed.getvalue())


def _replace(path: Path, data: bytes) -> None:
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.write_bytes(data)
    scratch.replace(path)
