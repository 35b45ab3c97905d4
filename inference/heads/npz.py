"""Files of trained heads: npz, large matrices as int8 with a scale per column."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.errors import StoreError
from inference.heads.trunk import Array, UpperLayers


def save_weights(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a head: large matrices as int8 with a scale per column, the rest as float32.

    Deterministic: equal arrays give equal bytes.
    """
    stored: dict[str, NDArray[Any]] = {}
    for name, array in sorted(arrays.items()):
        if array.ndim == 2 and array.size > 10_000:
            scale = np.maximum(np.abs(array).max(axis=0), 1e-8).astype(np.float32) / np.float32(127)
            stored[name] = np.rint(array / scale).astype(np.int8)
            stored[f"{name}:scale"] = scale
        else:
            stored[name] = array.astype(np.float32)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **stored)


def load_head(
    name: str, needed: Collection[str], hint: str, *, int8: bool = False
) -> tuple[UpperLayers, dict[str, Array]]:
    """Load a shipped head: its upper layers, and the weights of its output layers.

    Args:
        name: File in this folder.
        needed: Names of the output layers' weights.
        hint: Hint of the error if some are missing.
        int8: Of the layers, as in `UpperLayers`.

    Raises:
        StoreError: The file is missing, damaged, or belongs to another head.
    """
    with as_file(files("inference.heads").joinpath(name)) as path:
        weights = load_weights(path)
    if missing := set(needed) - weights.keys():
        raise StoreError(f"{name}: the weights lack {', '.join(sorted(missing))}", hint=hint)
    return UpperLayers(weights, int8=int8), {part: weights[part] for part in needed}


def load_weights(path: Path) -> dict[str, Array]:
    """Read what `save_weights` wrote, all as float32.

    Raises:
        StoreError: The file is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        hint = "install hopgraph again, or train the head again"
        raise StoreError(f"{path}: trained weights can't be read ({error})", hint=hint) from error
    return {
        name: array.astype(np.float32) * arrays.get(f"{name}:scale", np.float32(1))
        for name, array in arrays.items()
        if not name.endswith(":scale")
    }
