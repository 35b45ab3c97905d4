"""`hopgraph serve --model-only`: the embedded model's server in the foreground, for other programs to use."""

from __future__ import annotations

import typer


def serve_model(model: str, port: int, parallel: int, context: int) -> None:
    """Serve a small model on this machine with an OpenAI-compatible API, until ctrl-C (exit code 0).

    The adapter of HOPGRAPH_EMBEDDED_LORA is applied to it.

    Args:
        model: `smollm2`, or a GGUF file.
        port: Port on 127.0.0.1; 0: any free port.
        parallel: Maximum number of concurrent requests.
        context: Context length of each request, in tokens.

    Raises:
        EndpointError: The server does not start.
        InputError: The model is unknown, or its file or the adapter's is none.
    """
    import os
    import signal
    import time

    from inference.embedded_model import served_model
    from inference.embedded_server import start_llama
    from inference.errors import EndpointError
    from inference.settings import get_settings

    name, file, lora = served_model(model, get_settings())
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while llama.cpp loads, Python can't see ctrl-C
    try:
        _server, address = start_llama(file, name, port=port, parallel=parallel, context=context, lora=lora)
    except (RuntimeError, ImportError) as error:
        raise EndpointError(
            f"the server did not start on port {port}: {error}",
            hint="see llama.cpp's message above; --port 0 chooses a free port",
        ) from error
    typer.echo(f"serving {file.name} at {address}/v1 (ctrl-C stops it). To use it:")
    typer.echo(f"export HOPGRAPH_LLM_URL={address}/v1 HOPGRAPH_LLM_MODEL={name}")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        while True:
            time.sleep(0.25)
    except KeyboardInterrupt:
        pass
    typer.echo("stopped", err=True)
    os._exit(0)  # llama.cpp's destructor can hang; the kernel frees the port
