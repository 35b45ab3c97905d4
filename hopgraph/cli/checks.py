"""What is checked before a command starts its work."""

from __future__ import annotations

__all__ = ["check_endpoint", "check_index"]


def check_index(name: str | None) -> None:
    """Say at once that an index is missing, before a model is started."""
    from nodes.kit.passages import index_ref

    index_ref(name)


async def check_endpoint(model: str | None, generator_model: str | None = None) -> None:
    """Say at once that an endpoint can't be used, instead of after the retries of the first call.

    Raises:
        InputError, EndpointError: See `Endpoint.check`.
    """
    from inference.settings import get_settings
    from nodes.kit.model import open_endpoint

    await (await open_endpoint(model)).check()
    if get_settings().server("generator").own or generator_model:
        await (await open_endpoint(generator_model, "generator")).check()
