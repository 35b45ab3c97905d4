"""The reranker that the settings name."""

from __future__ import annotations

from pathlib import Path

from inference.errors import InputError
from inference.rerankers.cross_encoder import check_cross_encoder, open_cross_encoder
from inference.rerankers.endpoint import endpoint_reranker
from inference.rerankers.scores import Reranker
from inference.settings import get_settings


def get_reranker() -> Reranker:
    """The configured reranker: a `/rerank` endpoint, else a folder with a cross-encoder (one instance per process).

    Raises:
        InputError: None is configured, the endpoint's address is not a URL, or the folder's files can't be used.
    """
    settings = get_settings()
    if settings.rerank_url is not None:
        return endpoint_reranker(settings)
    return open_cross_encoder(_folder())


def check_reranker() -> str:
    """The id of the configured reranker, without loading or calling it.

    Raises:
        InputError: As for `get_reranker`, as far as can be told.
    """
    settings = get_settings()
    if settings.rerank_url is not None:
        return endpoint_reranker(settings).id
    check_cross_encoder(folder := _folder())
    return folder.name


def _folder() -> Path:
    named = get_settings().rerank_model
    if named is None:
        raise InputError(
            "rerank: no reranking model is configured",
            hint="set HOPGRAPH_RERANK_URL to a server with /rerank (vLLM has it), or HOPGRAPH_RERANK_MODEL to a folder "
            "with a cross-encoder (model.onnx, tokenizer.json); `listwise` needs neither",
        )
    return Path(named).expanduser()
