"""Variants of a run: plain methods, ablations, prompt overlays and suites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from hopgraph.evaluation.simulated import Simulation
from hopgraph.evaluation.suites import SUITES
from hopgraph.methods import context_class, make_context
from inference.errors import InputError
from inference.settings import overridden
from nodes.kit.context import Context
from prompts.loader import check_names, load_prompt
from prompts.parsing import MAX_BYTES

ORACLE = " (oracle)"
"""Suffix of the name of a variant that is shown gold."""
REPAIR = "shared/repair"
LISTWISE = "shared/listwise"


@dataclass(frozen=True)
class Variant:
    """A method with its settings."""

    name: str
    """Unique in a run: the method's id, with the difference if several variants share the method."""
    values: Mapping[str, Any]
    """Settings given by the user or the suite."""
    context: Context
    """All settings, defaults included."""

    @property
    def method(self) -> str:
        """The method's id."""
        return self.context.method


def plain_variants(methods: Sequence[str], values: Mapping[str, Any]) -> list[Variant]:
    """One variant a method, all with the same settings.

    Raises:
        InputError: A method is unknown or named twice, or a setting is wrong for one of them.
    """
    if len(set(methods)) < len(methods):
        raise InputError("--method: the same method twice", hint="--overlay compares prompts, --ablations ablations")
    return [_variant(method, method, values) for method in methods]


def ablations(method: str, values: Mapping[str, Any]) -> list[Variant]:
    """The full method, and the method without each part of its paper's ablation table.

    Raises:
        InputError: The method is unknown, or has no ablations.
    """
    field = context_class(method).model_fields.get("ablate")
    parts = [part for item in get_args(field.annotation) for part in get_args(item)] if field else []
    if not parts:
        raise InputError(f"--ablations: {method} has none", hint="its context has no field `ablate`")
    if values.get("ablate"):
        raise InputError("--ablations: sets `ablate` itself", hint="omit --set ablate=...")
    whole = _variant(method, method, values)
    return [whole, *(_variant(f"{method} -{part}", method, {**values, "ablate": [part]}) for part in parts)]


def overlays(method: str, folders: Sequence[Path], values: Mapping[str, Any]) -> list[Variant]:
    """The method with the prompts of each folder; missing prompts are those of HOPGRAPH_PROMPTS or as shipped.

    A single folder is compared with the method without it. The texts become settings of the variant: they are kept with
    the run, and later edits have no effect.

    Raises:
        InputError: A folder can't be read or has no prompt of the method, a prompt is malformed, or there is nothing to
            compare.
    """
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    variants = [
        _variant(f"{method} {name}", method, {**values, **_texts(method, folder)})
        for name, folder in zip(names, folders, strict=True)
    ]
    if len(folders) > 1:
        return variants
    plain = _variant(method, method, values)
    if prompt_hashes(plain.context) == prompt_hashes(variants[0].context):
        raise InputError(
            f"--overlay: the prompts of {folders[0]} are the same as {method}'s without it",
            hint="change one, or unset HOPGRAPH_PROMPTS if it names that folder",
        )
    return [plain, *variants]


def _texts(method: str, folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        raise InputError(f"--overlay: no such folder: {folder}")
    check_names(folder)
    for shared in (REPAIR, LISTWISE):
        if (folder / f"{shared}.md").exists():
            raise InputError(
                f"{folder / shared}.md: a prompt of all methods can't be compared",
                hint="HOPGRAPH_PROMPTS replaces it for all",
            )
    texts: dict[str, str] = {}
    for field, prompt in context_class(method).prompts().items():
        path = folder / f"{prompt}.md"
        if path.is_file():
            try:
                texts[field] = path.read_bytes()[: MAX_BYTES + 1].decode("utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(f"{path}: can't be read ({error})", hint="save as UTF-8") from None
            try:
                load_prompt(prompt, texts[field])
            except InputError as error:
                raise InputError(f"{path}: {error.message}", hint=error.hint) from None
    if not texts:
        known = ", ".join(f"{prompt}.md" for prompt in context_class(method).prompts().values())
        raise InputError(f"--overlay: {folder} has no prompt of {method}", hint=f"its prompts: {known}")
    return texts


def suite(name: str, values: Mapping[str, Any]) -> list[Variant]:
    """The rows of a named suite.

    Args:
        name: One of `SUITES`.
        values: Settings of all rows.

    Raises:
        InputError: The suite is unknown, sets one of the settings itself, or needs an index and none is given; or a
            setting is wrong for one of its rows.
    """
    if name not in SUITES:
        raise InputError(f"--suite: unknown suite {name!r}", hint=f"suites: {', '.join(SUITES)}")
    found = SUITES[name]
    own = sorted({setting for row in found.rows for setting in row.settings} - {"index"})
    if taken := [setting for setting in own if setting in values]:
        raise InputError(f"--suite: {name} sets `{taken[0]}` itself", hint=f"omit --set {taken[0]}=...")
    variants = []
    for row in found.rows:
        settings = dict(row.settings)
        if "index" in settings:
            if not values.get("index"):
                raise InputError(f"index: {name} needs one", hint=f"--index NAME; {found.about}")
            settings["index"] = settings["index"].format(index=values["index"])
        variants.append(_variant(row.name, row.method or found.method, {**values, **settings}))
    return variants


def _variant(name: str, method: str, values: Mapping[str, Any]) -> Variant:
    context = make_context(method, values)
    if context.oracle and not name.endswith(ORACLE):
        name += ORACLE
    if getattr(context, "review", "none") != "none":
        raise InputError("review: not available in an evaluation, which runs unattended", hint="omit `review`")
    return Variant(name, dict(values), context)


def restore(about: Mapping[str, Any]) -> list[Variant]:
    """The variants of a run, from its `run.json`."""
    with defaults_of(Simulation.of(about)):
        return [_variant(row["name"], row["method"], row["values"]) for row in about["variants"]]


def defaults_of(simulation: Simulation | None) -> AbstractContextManager[None]:
    """While it is open, variants of a simulation get the usual defaults instead of the embedded model's."""
    return nullcontext() if simulation is None else overridden(llm_url="http://127.0.0.1/v1")


def prompt_hashes(context: Context) -> dict[str, str]:
    """Hashes of the prompts that a method may use with these settings, by name.

    Raises:
        InputError: One is malformed.
    """
    overrides = {name: (text, field) for field, name in context.prompts().items() if (text := getattr(context, field))}
    names = sorted({*context.prompts().values(), REPAIR, *([LISTWISE] if context.rerank == "listwise" else [])})
    return {name: load_prompt(name, *overrides.get(name, ())).hash for name in names}
