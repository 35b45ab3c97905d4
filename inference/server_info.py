"""A server's description: kind, models, context and slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from inference.base_url import server_root
from inference.chat import name_of
from inference.http import Connections, Refusal


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server's description of itself."""

    kind: Literal["vllm", "llama.cpp", "other"]
    models: tuple[str, ...]
    context: int | None
    """Context in tokens, prompt and completion together; None if not reported."""
    slots: int | None = None
    """Parallel requests; None if not reported."""


async def model_rows(http: Connections, url: str, seconds: float) -> list[dict[str, Any]]:
    """The rows of /models, each with an `id`.

    Raises:
        ValueError, KeyError, TypeError: The response is not that of an OpenAI-compatible server.
        Refusal, OSError, aiohttp.ClientError: As `Connections.get`.
    """
    data = (await http.get(f"{url}/models", seconds))["data"]
    rows = [row for row in data if isinstance(row, dict)]
    for row in rows:
        row["id"] = str(row["id"])
    return rows


async def server_info(http: Connections, url: str, model: str, rows: Sequence[Mapping[str, Any]]) -> ServerInfo:
    """Collect a description from the server's endpoints and model rows.

    Args:
        http: Connections to the server.
        url: Its base URL.
        model: The model whose context counts; "" for the first one.
        rows: Result of `model_rows`.
    """
    models = tuple(row["id"] for row in rows)
    row = next((row for row in rows if row["id"] == model), rows[0] if rows else {})
    owner = row.get("owned_by")
    # vLLM reports the length of base models only; an adapter has its base's.
    lengths = [length for one in (row, *rows) if isinstance(length := one.get("max_model_len"), int)]
    if lengths:  # other servers use vLLM's field, too
        is_vllm = owner == "vllm" or (owner is None and await server_version(http, url) != "")
        return ServerInfo("vllm" if is_vllm else "other", models, lengths[0])
    if owner == "llamacpp":
        return ServerInfo("llama.cpp", models, *await _llama_props(http, url))
    return ServerInfo("other", models, None)


async def server_version(http: Connections, url: str) -> str:
    """The version of a vLLM server; "" for others."""
    import aiohttp

    try:
        return name_of((await http.get(f"{server_root(url)}/version", 10.0))["version"])
    except (Refusal, OSError, aiohttp.ClientError, ValueError, KeyError, TypeError):
        return ""


async def _llama_props(http: Connections, url: str) -> tuple[int | None, int | None]:
    """Tokens of context per slot, and number of slots."""
    import aiohttp

    try:
        props = await http.get(f"{server_root(url)}/props", 10.0)
        context = int(props["default_generation_settings"]["n_ctx"])
    except (Refusal, OSError, aiohttp.ClientError, ValueError, KeyError, TypeError):
        return None, None
    slots = props.get("total_slots")
    return context, slots if isinstance(slots, int) and slots > 0 else None
