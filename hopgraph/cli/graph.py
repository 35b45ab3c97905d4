"""`hopgraph graph`: a method's state machine as text or as a picture, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hopgraph.cli import completion

__all__ = ["graph"]


def graph(
    method: Annotated[
        str | None,
        typer.Argument(help="Method id; without one they are listed.", autocompletion=completion.methods),
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Write a PNG picture to this file.")] = None,
) -> None:
    """Draw a method's state machine (Mermaid text, or a PNG), or list the methods."""
    from hopgraph.methods import METHODS, READERS, load

    if method is None:
        for name, about in (METHODS | READERS).items():
            print(f"{name:20}{about}")
        return
    from hopgraph import drawing
    from inference.errors import InputError

    shown = load(method).get_graph(xray=True)
    if png is None:
        print(drawing.mermaid(shown))
        return
    picture = drawing.png(shown)
    try:
        png.parent.mkdir(parents=True, exist_ok=True)
        png.write_bytes(picture)
    except OSError as error:
        raise InputError(f"{png}: {error.strerror}") from None
    print(png)
