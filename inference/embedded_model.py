"""Which files the embedded server serves: a model, and an adapter of it."""

from __future__ import annotations

import sys
from pathlib import Path

from inference.errors import InputError
from inference.merging import merged_model
from inference.settings import Role, Settings
from inference.weights import smollm2_path

AGENTS_ADAPTER = Path(__file__).parent / "adapters" / "agents.gguf"
SYNTHESIZER_ADAPTER = AGENTS_ADAPTER.with_name("synthesizer.gguf")
"""The adapters of `smollm2` that come with Hopgraph; adapters/README.md is their model card."""


def adapter_of(model: str, settings: Settings, role: Role = "llm") -> Path | None:
    """The adapter that `model` has for a role, by HOPGRAPH_EMBEDDED_LORA and HOPGRAPH_EMBEDDED_SYNTHESIZER_LORA.

    Raises:
        InputError: It is no GGUF file.
    """
    field, chosen, bundled = "embedded_lora", settings.embedded_lora, AGENTS_ADAPTER
    if role == "synthesizer" and settings.embedded_synthesizer_lora != "auto":
        field, chosen = "embedded_synthesizer_lora", settings.embedded_synthesizer_lora
    elif role == "synthesizer":
        bundled = SYNTHESIZER_ADAPTER
    if chosen == "none" or (chosen == "auto" and model != "smollm2"):
        return None
    path = bundled if chosen == "auto" else Path(chosen)
    hint = "give an adapter in llama.cpp's format, .gguf, or auto or none"
    return _gguf(path, f"HOPGRAPH_{field.upper()}: {str(path)!r}", hint)


def is_separate(settings: Settings, role: Role) -> bool:
    """Whether a role is served by the embedded model with another adapter than `llm` has."""
    if settings.server(role).url is not None:
        return False
    model = settings.embedded_model
    return adapter_of(model, settings, role) != adapter_of(model, settings)


def served_model(model: str, settings: Settings, role: Role = "llm") -> tuple[str, Path, Path | None]:
    """Name, GGUF file and adapter of what serves `model` for a role.

    An adapter of `smollm2` is merged into a file of its own, which answers faster; others the server applies.

    Args:
        model: `smollm2`, or the path of a GGUF file.
        settings: Settings.
        role: Whose adapter; see `adapter_of`.

    Raises:
        InputError: `model` is neither, or the adapter is no GGUF file.
        EndpointError: The weights of `smollm2` can't be fetched.
    """
    name, file = model_file(model, settings.home)
    lora = adapter_of(model, settings, role)
    if lora is None:
        return name, file, None
    name = f"{name}+{lora.stem}"
    if model == "smollm2":
        try:
            return name, merged_model(file, lora), None
        except (OSError, ValueError) as error:
            sys.stderr.write(f"Not merged, so answers take longer: {error}\n")
    return name, file, lora


def model_file(model: str, home: Path) -> tuple[str, Path]:
    """Name and GGUF file of `model`; the weights of `smollm2` are fetched if they are missing.

    Raises:
        InputError: `model` is neither `smollm2` nor a GGUF file.
        EndpointError: The weights can't be fetched.
    """
    if model == "smollm2":
        return model, smollm2_path(home).resolve()
    hint = "give smollm2, or the path of a model in llama.cpp's format, .gguf"
    file = _gguf(Path(model).expanduser(), f"embedded model {model!r}", hint)
    return file.stem, file


def _gguf(file: Path, what: str, hint: str) -> Path:
    """The absolute path of a file, checked to be GGUF."""
    try:
        with file.open("rb") as source:
            magic = source.read(4)
    except OSError as error:
        raise InputError(f"{what}: {error.strerror or error}", hint=hint) from None
    if magic != b"GGUF":
        raise InputError(f"{what} is not a GGUF file", hint=hint)
    return file.resolve()
