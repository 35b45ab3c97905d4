"""Serializer of checkpoints: plain values only, compressed."""

from __future__ import annotations

import zlib
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

_PACKED = "+zlib"
_MIN_PACKED = 512
"""Bytes; smaller values are stored uncompressed."""
_MAX_UNPACKED = 1_000_000_000
"""Bytes; limit against decompression bombs."""


class PackingSerializer(JsonPlusSerializer):
    """Serializes plain values only, with an empty type allowlist, and compresses large ones to about a fifth.

    A checkpoint holds the whole state of a run at each step, so its values repeat many times.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

    def with_msgpack_allowlist(self, extra_allowlist: Any) -> PackingSerializer:
        """Returns itself: no type is added to the allowlist.

        Under LANGGRAPH_STRICT_MSGPACK, LangGraph requests each graph's types, and copies the checkpointer if it gets
        another serializer. The state has plain values only, and the local server's checkpointer can't be copied: its
        `__getattr__` recurses endlessly without `__init__`.
        """
        return self

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """See `SerializerProtocol`."""
        kind, plain = super().dumps_typed(obj)
        if len(plain) < _MIN_PACKED:
            return kind, plain
        return kind + _PACKED, zlib.compress(plain, 1)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """See `SerializerProtocol`.

        Raises:
            ValueError: The value is damaged, or larger than `_MAX_UNPACKED` when decompressed.
        """
        kind, value = data
        if kind.endswith(_PACKED):
            unpacking = zlib.decompressobj()
            try:
                value = unpacking.decompress(value, _MAX_UNPACKED)
            except zlib.error as error:
                raise ValueError(str(error)) from None
            if not unpacking.eof:
                raise ValueError("compressed value is truncated or too long")
            kind = kind.removesuffix(_PACKED)
        return super().loads_typed((kind, value))
