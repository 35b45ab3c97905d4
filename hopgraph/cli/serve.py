"""`hopgraph serve`: the embedded model's server in the foreground, for other programs to use."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["serve"]


def serve(
    model: Annotated[str, typer.Option(help="smollm2, or a GGUF file.")] = "smollm2",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")] = 8080,
    parallel: Annotated[int | None, typer.Option(min=1, max=256, help="Requests answered at the same time.")] = None,
    context: Annotated[int | None, typer.Option(min=256, help="Context of each request, in tokens.")] = None,
) -> None:
    """Serve a small model on this machine, OpenAI-compatible, until ctrl-C."""
    from inference.embedded import run_in_foreground

    run_in_foreground(model, port=port, parallel=parallel, context=context)
