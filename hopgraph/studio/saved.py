"""The local server's list of runs on disk as soon as one begins: the server itself writes it every ten seconds."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

__all__ = ["save_runs"]

_writing = asyncio.Lock()
"""Later lists are written later."""


async def save_runs() -> None:
    """Write the list of runs, so that a server that is started after a kill takes up those under way."""
    from langgraph_runtime_inmem.database import GLOBAL_STORE, OPS_FILENAME

    async with _writing:
        packed = io.BytesIO()
        GLOBAL_STORE.dump(packed)  # in the event loop: nothing changes the list meanwhile
        await asyncio.to_thread(_replace, Path(OPS_FILENAME), packed.getvalue())


def _replace(path: Path, data: bytes) -> None:
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.write_bytes(data)
    scratch.replace(path)
