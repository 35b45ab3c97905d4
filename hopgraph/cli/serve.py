"""`hopgraph serve`: the methods behind the OpenAI API, or the embedded model alone."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from hopgraph.cli import completion

_LOCAL = ("127.0.0.1", "::1", "localhost")


def serve(
    index: Annotated[
        str | None,
        typer.Option(
            "--index",
            "-i",
            help="Index of requests whose model names none (`prism:NAME` does). Default: the only index.",
            autocompletion=completion.indexes,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than 127.0.0.1 only with HOPGRAPH_API_KEY.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free port.")] = 8080,
    runs: Annotated[int, typer.Option(min=1, max=4096, help="Maximum number of concurrent runs.")] = 256,
    queue: Annotated[int, typer.Option(min=0, help="Maximum number of waiting requests.")] = 256,
    history: Annotated[
        str,
        typer.Option(
            help="Earlier turns of a chat: rewrite (one call makes the question self-contained) or off (ignored)."
        ),
    ] = "rewrite",
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="Web pages that may call it, such as http://127.0.0.1:3000; may be repeated."
        ),
    ] = None,
    model_only: Annotated[
        bool, typer.Option("--model-only", help="Serve the embedded model, without methods.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="With --model-only: smollm2, or a GGUF file. Default: smollm2.")
    ] = None,
    parallel: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="With --model-only: maximum number of concurrent requests. Default: 4."),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(min=256, help="With --model-only: context length of a request, in tokens. Default: 8192."),
    ] = None,
) -> None:
    """Serve every method as a model of an OpenAI-compatible API, until ctrl-C (exit code 0)."""
    from inference.errors import InputError

    own = {"--model": model, "--parallel": parallel, "--context": context}
    if model_only:
        from hopgraph.cli.model_server import serve_model

        if host not in _LOCAL:
            raise InputError("--host: the model alone is served on 127.0.0.1 only")
        serve_model(model or "smollm2", port, parallel or 4, context or 8192)
        return
    if given := [name for name, value in own.items() if value is not None]:
        raise InputError(
            f"{given[0]}: only with --model-only",
            hint="`hopgraph serve --model-only` serves the model; without it the methods are served, and "
            "HOPGRAPH_EMBEDDED_MODEL, HOPGRAPH_EMBEDDED_PARALLEL and HOPGRAPH_EMBEDDED_CONTEXT set their model",
        )
    _serve_methods(index, host, port, runs, queue, _history(history), tuple(allow_origin or ()))


def _serve_methods(
    index: str | None,
    host: str,
    port: int,
    runs: int,
    queue: int,
    history: Literal["off", "rewrite"],
    origins: tuple[str, ...],
) -> None:
    from hopgraph import loop
    from hopgraph.cli.checks import check_index
    from hopgraph.cli.serving import bound, serve_app
    from hopgraph.server.app import create_app
    from hopgraph.server.guard import check_origin
    from hopgraph.server.options import Options
    from inference.errors import InputError
    from inference.settings import get_settings

    key = get_settings().api_key
    if host not in _LOCAL and key is None:
        raise InputError(
            f"--host {host}: other machines could use the server without a key",
            hint="set HOPGRAPH_API_KEY to a secret that clients send, or omit --host",
        )
    for origin in origins:
        check_origin(origin)
    if index is not None:
        check_index(index)
    secret = key.get_secret_value() if key else None
    options = Options(index=index, history=history, runs=runs, queue=queue, key=secret, origins=origins)
    with bound(host, port) as listening:
        loop.run(serve_app(create_app(options), listening))


def _history(word: str) -> Literal["off", "rewrite"]:
    from inference.errors import InputError

    known: dict[str, Literal["off", "rewrite"]] = {"off": "off", "rewrite": "rewrite"}
    if word not in known:
        raise InputError(f"--history: unknown value {word!r}", hint="values: off, rewrite")
    return known[word]
