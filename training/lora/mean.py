"""The mean of adapters that go on from one another: `python -m training.lora.mean A.gguf B.gguf --to MEAN.gguf`.

A run that teaches some roles forgets a part of others; the mean of the weights before and after it often keeps both
better than either (Wortsman et al. 2022, "Model soups"). It needs no base model and no torch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from inference.errors import InputError
from training.command import guarded, parser


def write_mean(files: Sequence[Path], to: Path) -> Path:
    """Write the mean of LoRA adapters (GGUF): of their matrices A and of their matrices B.

    Args:
        files: Adapters of one base with the same rank and alpha.
        to: The GGUF file.

    Raises:
        InputError: A file can't be read, or adapters differ in base, layers, rank or alpha.
    """
    import numpy as np

    from inference.merging import read_adapter
    from training.lora.gguf_files import write_adapter

    try:
        adapters = [read_adapter(file) for file in files]
    except (OSError, ValueError) as error:
        raise InputError(str(error)) from error
    shapes = [
        (_architecture(file), alpha, {name: matrix.shape for name, matrix in halves.items()})
        for file, (alpha, halves) in zip(files, adapters, strict=True)
    ]
    for file, shape in zip(files, shapes, strict=True):
        if shape != shapes[0]:
            raise InputError(f"{file}: base, layers, rank or alpha differ from {files[0]}")
    architecture, alpha, names = shapes[0]
    mean = {name: np.mean([halves[name] for _, halves in adapters], axis=0) for name in names}
    return write_adapter(mean, architecture, alpha, to)


def _architecture(file: Path) -> str:
    import gguf

    field = gguf.GGUFReader(file).get_field(gguf.Keys.General.ARCHITECTURE)
    return "" if field is None else str(field.contents())


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    flags = parser("lora.mean", "Average LoRA adapters that go on from one another.")
    flags.add_argument(
        "adapters", type=Path, nargs="+", metavar="FILE", help="adapters (GGUF) of the same base and rank"
    )
    flags.add_argument("--to", type=Path, required=True, help="file to write")
    options = flags.parse_args(arguments)
    return guarded(lambda: f"{write_mean(options.adapters, options.to)}\n")


if __name__ == "__main__":
    sys.exit(main())
