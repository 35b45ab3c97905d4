"""The encoder that the settings name."""

from __future__ import annotations

from inference.encoders.endpoint import endpoint_encoder
from inference.encoders.minilm import built_in_encoder
from inference.encoders.vectors import Encoder
from inference.settings import get_settings


def get_encoder() -> Encoder:
    """The configured encoder: an embeddings endpoint, else the built-in MiniLM (one instance per process).

    Raises:
        InputError: The endpoint's address is not a URL.
        StoreError: The built-in encoder's files are missing.
    """
    settings = get_settings()
    return built_in_encoder() if settings.embed_url is None else endpoint_encoder(settings)
