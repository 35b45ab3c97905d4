"""`hopgraph graph`: a method's state machine as text or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hopgraph.cli import completion


def graph(
    method: Annotated[
        str | None,
        typer.Argument(help="Method id. Default: list the methods.", autocompletion=completion.methods),
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Write a PNG picture to this file; needs the extra `draw`.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Write an SVG picture to this file.")] = None,
) -> None:
    """Draw a method's state machine (Mermaid text, SVG or PNG), or list the methods."""
    from hopgraph.methods import METHODS, READERS, load

    if method is None:
        for name, about in (METHODS | READERS).items():
            print(f"{name:20}{about}")
        return
    from hopgraph import drawing
    from hopgraph.mermaid import mermaid
    from inference.errors import InputError

    shown = load(method).get_graph(xray=True)
    wanted = [(svg, drawing.svg(method).encode())] if svg is not None else []
    wanted += [(png, drawing.png(shown))] if png is not None else []
    if not wanted:
        print(mermaid(shown))
    for path, picture in wanted:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        print(path)
