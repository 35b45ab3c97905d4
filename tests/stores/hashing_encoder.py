"""An encoder that needs no model: words hashed into a vector. For tests of what is around an encoder."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from zlib import crc32

import numpy as np

from inference.encoders.vectors import Vectors, unit
from stores.sparse import tokenize


class HashingEncoder:
    """Equal words, near vectors. Counts what it encodes."""

    def __init__(self, identity: str = "hashing/32", dimension: int = 32, delay: float = 0.0) -> None:
        self.id = identity
        self.dimension = dimension
        self.delay = delay
        self.passages = 0
        self._lock = threading.Lock()

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            self.passages += len(texts)
        time.sleep(self.delay)
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            vectors[row, 0] = 0.01
            for word in tokenize(text):
                vectors[row, crc32(word.encode()) % self.dimension] += 1
        return unit(vectors)

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        count = self.passages
        vectors = self.encode_passages(texts)
        self.passages = count
        return vectors
