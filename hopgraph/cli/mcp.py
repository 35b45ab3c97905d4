"""`hopgraph mcp`: the tools of the Model Context Protocol on standard input and output."""

from __future__ import annotations

from typing import Annotated

import typer

from hopgraph.cli import completion


def mcp(
    index: Annotated[
        str | None,
        typer.Option(
            "--index",
            "-i",
            help="Index of calls that name none. Default: the only index.",
            autocompletion=completion.indexes,
        ),
    ] = None,
) -> None:
    """Serve ask, search, read_passage and more to an MCP client, on standard input and output."""
    from hopgraph import loop
    from hopgraph.cli.checks import check_index

    if index is not None:
        check_index(index)
    loop.run(_serve(index))


async def _serve(index: str | None) -> None:
    from hopgraph.server.mcp import create_mcp
    from hopgraph.server.options import Options
    from hopgraph.server.service import Service

    async with Service.opened(Options(index=index)) as service:
        await create_mcp(lambda: service).run_stdio_async()
