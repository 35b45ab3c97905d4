"""From llama.cpp's GGUF files to transformers' folders and back: a base model to train on, an adapter to serve."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference.errors import InputError
from inference.settings import get_settings

if TYPE_CHECKING:
    import numpy as np
    from gguf import TensorNameMap
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

_ARCHITECTURES = {
    "LlamaForCausalLM": ("llama", True),
    "MistralForCausalLM": ("llama", True),
    "Qwen2ForCausalLM": ("qwen2", False),
    "Qwen3ForCausalLM": ("qwen3", False),
}
"""llama.cpp's name of an architecture, and whether it stores queries and keys in rotary order."""


def base_folder(base: str, to: Path) -> Path:
    """The model to train on, in transformers' format: a GGUF file is converted, once.

    Args:
        base: `smollm2`, a GGUF file, or a folder.
        to: Folder for the converted model, `to/base`.

    Raises:
        InputError: It is none of these.
        EndpointError: The weights of `smollm2` can't be fetched.
    """
    from inference.embedded_model import model_file

    if Path(base).is_dir():
        return Path(base)
    name, file = model_file(base, get_settings().home)
    folder, stamp = to / "base", f"{name} {file.stat().st_size}"
    done = folder / "converted-from"
    if not done.is_file() or done.read_text("utf-8") != stamp:
        convert_base(file, folder)
        done.write_text(stamp, "utf-8")
    return folder


def convert_base(file: Path, folder: Path) -> None:
    """Write the model of a GGUF file, its numbers as they are after quantization, and its tokenizer into a folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    if _splits_digits(file):
        from tokenizers import pre_tokenizers

        # Transformers reads the merges and not the rule that each digit stands alone: "\n\n1" would differ.
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    model = AutoModelForCausalLM.from_pretrained(
        file.parent,
        gguf_file=file.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    model.hf_quantizer = None  # it is an ordinary model now, and would not be saved as one
    model.config.__dict__.pop("quantization_config", None)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _splits_digits(file: Path) -> bool:
    """Whether the file's tokenizer is one of those that take each digit for itself."""
    import gguf

    field = gguf.GGUFReader(file).get_field(gguf.Keys.Tokenizer.PRE)
    return field is not None and field.contents() in ("smollm", "starcoder", "refact", "command-r")


def write_lora(adapter: Path, base: Path, to: Path) -> Path:
    """Write a PEFT adapter as a GGUF file that llama.cpp applies to the same base, in any quantization.

    Args:
        adapter: Folder with `adapter_config.json` and `adapter_model.safetensors`.
        base: Folder of the base model, for the names and shapes of its layers.
        to: The GGUF file.

    Raises:
        InputError: The architecture, or a part of the adapter, is not one that this writes.
    """
    import numpy as np
    from safetensors.numpy import load_file

    lora = json.loads((adapter / "adapter_config.json").read_text("utf-8"))
    config, name, rotary = _architecture(base)
    names = _names(config, name)
    halves = {}
    for key, matrix in sorted(load_file(adapter / "adapter_model.safetensors").items()):
        layer, half = _layer_of(key, adapter)
        place = names.get_name(layer)
        if place is None:
            raise InputError(f"{adapter}: llama.cpp has no name for {layer}")
        matrix = matrix.astype(np.float32)
        if half == "b" and rotary:
            matrix = _in_rotary_order(layer, matrix, config)
        halves[f"{place}.weight.lora_{half}"] = matrix
    return write_adapter(halves, name, lora["lora_alpha"], to)


def write_adapter(halves: Mapping[str, Matrix], architecture: str, alpha: float, to: Path) -> Path:
    """Write a LoRA adapter (GGUF).

    Args:
        halves: Matrices by name, as `inference.merging.read_adapter` gives them.
        architecture: llama.cpp's name of the base's.
        alpha: The adapter's.
        to: The GGUF file.
    """
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(to, architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(alpha))
    for name, matrix in halves.items():
        # Eight bits halve the file; rows that are no multiple of a block stay in sixteen.
        kind = gguf.GGMLQuantizationType.Q8_0 if matrix.shape[1] % 32 == 0 else gguf.GGMLQuantizationType.F16
        packed = gguf.quants.quantize(np.ascontiguousarray(matrix), kind)
        writer.add_tensor(name, packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return to


def read_lora(file: Path, base: Path, model: Any) -> None:
    """Give a PEFT model the numbers of an adapter that `write_lora` wrote.

    Args:
        file: The adapter, GGUF.
        base: Folder of the base model, for the names and shapes of its layers.
        model: The base with a new LoRA adapter of the same rank and alpha; its parameters are overwritten.

    Raises:
        InputError: The file can't be read, or its adapter has another shape than the model's.
    """
    import torch

    from inference.merging import read_adapter

    config, name, rotary = _architecture(base)
    names = _names(config, name)
    try:
        alpha, halves = read_adapter(file)
    except (OSError, ValueError) as error:
        raise InputError(f"--adapter: {error}") from error
    wanted = model.peft_config[model.active_adapter].lora_alpha
    if alpha != wanted:
        raise InputError(f"{file}: its alpha is {alpha}, not {wanted}", hint="set --rank to the rank of the adapter")
    for key, parameter in model.named_parameters():
        if ".lora_" not in key:
            continue
        layer, half = _layer_of(key.replace(f".{model.active_adapter}.", "."), file)
        matrix = halves.pop(f"{names.get_name(layer)}.weight.lora_{half}", None)
        if matrix is None or matrix.shape != parameter.shape:
            found = "nothing" if matrix is None else f"a matrix of shape {matrix.shape}"
            raise InputError(f"{file}: {found} for {layer}, where {tuple(parameter.shape)} is needed")
        if half == "b" and rotary:
            matrix = _in_rotary_order(layer, matrix, config, back=True)
        parameter.data.copy_(torch.from_numpy(matrix))
    if halves:
        raise InputError(f"{file}: the model has no {next(iter(halves))}")


def _architecture(base: Path) -> tuple[dict[str, Any], str, bool]:
    """A model's configuration, llama.cpp's name of its architecture, and whether queries and keys are reordered."""
    config = json.loads((base / "config.json").read_text("utf-8"))
    architecture = (config.get("architectures") or [""])[0]
    if architecture not in _ARCHITECTURES:
        raise InputError(
            f"{base}: adapters of {architecture or 'this architecture'} are not converted here",
            hint="llama.cpp's convert_lora_to_gguf.py knows more architectures",
        )
    return config, *_ARCHITECTURES[architecture]


def _names(config: Mapping[str, Any], name: str) -> TensorNameMap:
    import gguf

    arch = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == name)
    return gguf.get_tensor_name_map(arch, int(config["num_hidden_layers"]))


_KEY = re.compile(r"base_model\.model\.(?P<layer>.+)\.lora_(?P<half>[AB])\.weight")


def _layer_of(key: str, adapter: Path) -> tuple[str, str]:
    match = _KEY.fullmatch(key)
    if match is None:
        raise InputError(
            f"{adapter}: {key} is not part of a plain LoRA adapter", hint="train without DoRA or modules_to_save"
        )
    return match["layer"], match["half"].lower()


def _in_rotary_order(layer: str, matrix: Matrix, config: Mapping[str, Any], *, back: bool = False) -> Matrix:
    """Rows of a query or key projection as llama.cpp has them, or back as transformers has them.

    Transformers turns the first half of a head's rows against the second, llama.cpp each row against the next one.
    """
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config.get("num_key_value_heads")}.get(
        layer.rpartition(".")[2]
    )
    if heads is None:
        return matrix
    rows, rank = matrix.shape
    shape = (heads, rows // heads // 2, 2, rank) if back else (heads, 2, rows // heads // 2, rank)
    return matrix.reshape(shape).swapaxes(1, 2).reshape(rows, rank)
