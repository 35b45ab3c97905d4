"""The embedded model with an adapter merged into its weights, as a file beside them.

llama.cpp applies an adapter while it runs, but that and weights of 4 bits, for which it has no fast matrix product on
x86, cost time with every token.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference.locks import exclusive

if TYPE_CHECKING:
    import numpy as np
    from gguf import GGUFReader, GGUFWriter
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

_VERSION = "1"
"""Part of the file's name: raise it when files are merged in another way."""


def merged_model(base: Path, lora: Path) -> Path:
    """The GGUF file of `base` with `lora` merged into it (Q8_0), made in a few seconds if it is missing.

    It lies beside `base` and is named for the content of both. Safe with concurrent processes; an older one, of an
    adapter with the same name, is removed.

    Args:
        base: A model, GGUF.
        lora: A LoRA adapter of it, GGUF.

    Raises:
        OSError: A file can't be read or written.
        ValueError: `lora` can't be read, is no adapter, or not one of `base`.
    """
    content = hashlib.sha256(f"{_VERSION} {base.stat().st_size} ".encode() + lora.read_bytes()).hexdigest()
    family = f"{base.stem}+{lora.stem}"
    merged = base.with_name(f"{family}-{content[:12]}.gguf")
    if not merged.exists():
        with exclusive(base.with_name(f".{family}.lock")):
            if not merged.exists():
                sys.stderr.write(f"Merging {lora.name} into {base.name}, once\n")
                part = merged.with_suffix(".part")
                try:
                    _merge(base, lora, part)
                    part.replace(merged)
                finally:
                    part.unlink(missing_ok=True)
                for old in base.parent.glob(f"{glob.escape(family)}-{'?' * 12}.gguf"):
                    if old != merged:
                        with contextlib.suppress(OSError):
                            old.unlink()
    return merged


def _merge(base: Path, lora: Path, to: Path) -> None:
    from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, quants

    changes = _changes(lora)
    reader = GGUFReader(base)
    writer = GGUFWriter(to, str(_metadata(reader, "general.architecture")))
    _copy_metadata(reader, writer)
    for tensor in reader.tensors:
        change = changes.pop(tensor.name, None)
        if change is None:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
            continue
        weights = quants.dequantize(tensor.data, tensor.tensor_type)
        if weights.shape != change.shape:
            raise ValueError(f"{lora}: {tensor.name} is {change.shape}, not {weights.shape} as in {base.name}")
        eight = GGMLQuantizationType.Q8_0
        writer.add_tensor(tensor.name, quants.quantize(weights + change, eight), raw_dtype=eight)
    if changes:
        raise ValueError(f"{lora}: {base.name} has no {next(iter(changes))}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_adapter(lora: Path) -> tuple[float, dict[str, Matrix]]:
    """Alpha of a LoRA adapter (GGUF), and its matrices by name: `NAME.lora_a` and `NAME.lora_b` of the weights NAME.

    Raises:
        OSError: The file can't be read.
        ValueError: It is no LoRA adapter, or damaged.
    """
    from gguf import GGUFReader, quants

    try:
        reader = GGUFReader(lora)
        if _metadata(reader, "adapter.type") == "lora":
            alpha = float(_metadata(reader, "adapter.lora.alpha"))
            return alpha, {tensor.name: quants.dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}
    except (IndexError, KeyError, TypeError, ValueError, NotImplementedError) as error:  # what gguf raises if damaged
        raise ValueError(f"{lora} can't be read as an adapter: {error}") from error
    raise ValueError(f"{lora} is no LoRA adapter")


def _changes(lora: Path) -> dict[str, Matrix]:
    """What an adapter adds to each weight matrix: B A alpha / rank (Hu et al. 2021, Sec. 4.1)."""
    alpha, halves = read_adapter(lora)
    changes = {}
    for name, a in halves.items():
        if name.endswith(".lora_a"):
            whole = name.removesuffix(".lora_a")
            b = halves.get(f"{whole}.lora_b")
            if b is None or a.ndim != 2 or b.shape[1:] != a.shape[:1]:
                raise ValueError(f"{lora}: {whole} is not complete")
            changes[whole] = alpha / len(a) * (b @ a)
    return changes


def _metadata(reader: GGUFReader, key: str) -> Any:
    field = reader.get_field(key)
    return None if field is None else field.contents()


def _copy_metadata(reader: GGUFReader, writer: GGUFWriter) -> None:
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue  # the writer's own
        kind, *inner = field.types
        writer.add_key_value(field.name, field.contents(), kind, inner[-1] if inner else None)
