"""Arrays written to a file in pieces."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib.format import dtype_to_descr, write_array_header_1_0
from numpy.typing import DTypeLike, NDArray


class ArrayWriter:
    """Writes a one-dimensional array that need not fit in memory: the `.npy` file that `numpy.save` would write.

    Args:
        path: The file.
        dtype: Type of its numbers.
    """

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._file = path.open("wb")
        self._write_header(0)
        self.count = 0
        """Numbers written."""

    def append(self, values: NDArray[Any]) -> None:
        """Append numbers, converted to the file's type."""
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self.count += len(values)

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is None:
            self._file.seek(0)
            self._write_header(self.count)
        self._file.close()

    def _write_header(self, count: int) -> None:
        # numpy leaves room in the header for a longer array, so that its length does not change.
        header = {"descr": dtype_to_descr(self._dtype), "fortran_order": False, "shape": (count,)}
        write_array_header_1_0(self._file, header)
