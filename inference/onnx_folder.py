"""External ONNX checkpoints: a folder with a model's export, as `optimum-cli export onnx` writes it, and its tokenizer.

Errors name the environment variable that names the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from inference.errors import InputError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer


def check_folder(variable: str, folder: Path, files: Sequence[str]) -> None:
    """Check that a folder has the files of a checkpoint.

    Raises:
        InputError: A file is missing.
    """
    if missing := [name for name in files if not (folder / name).is_file()]:
        raise InputError(
            f"{variable}: {folder} has no {', '.join(missing)}",
            hint="export the checkpoint with `optimum-cli export onnx`, or unset the variable",
        )


def open_tokenizer(folder: Path, variable: str) -> Tokenizer:
    """The folder's tokenizer, without padding.

    Raises:
        InputError: The file can't be used.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers raises plain Exception
        raise InputError(f"{variable}: {folder / 'tokenizer.json'} can't be used ({error})") from None
    tokenizer.no_padding()
    return tokenizer


def open_model(path: Path, variable: str) -> InferenceSession:
    """A session of a model file, on this machine's CPU.

    Raises:
        InputError: The file can't be used.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common base
        raise InputError(f"{variable}: {path} can't be used ({error})") from None


def run_model(
    session: InferenceSession, given: dict[str, NDArray[Any]], wanted: Sequence[str], folder: Path
) -> list[NDArray[np.float32]]:
    """The wanted outputs of a model; it gets those of the inputs that it declares.

    Raises:
        InputError: The model can't be run.
    """
    names = {known.name for known in session.get_inputs()}
    try:
        outputs: list[NDArray[np.float32]] = session.run(
            list(wanted), {name: value for name, value in given.items() if name in names}
        )
    except Exception as error:
        raise InputError(
            f"{folder}: the model can't be run ({error})", hint="is it an export of the right task?"
        ) from None
    return outputs
