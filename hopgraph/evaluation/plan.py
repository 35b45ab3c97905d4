"""What a run consists of: its variants, and everything that its results depend on."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, get_args

from hopgraph.evaluation.data import Question, as_row
from hopgraph.evaluation.suites import SUITES
from hopgraph.methods import context_class
from hopgraph.run import make_context
from inference.errors import InputError
from inference.settings import get_settings
from nodes.kit.context import Context
from prompts.loader import MAX_BYTES, check_names, load_prompt
from stores.checkpoints import without_password

__all__ = [
    "ORACLE",
    "Variant",
    "ablations",
    "digest",
    "identity",
    "overlays",
    "plain_variants",
    "restore",
    "suite",
    "surroundings",
    "versions",
]

ORACLE = " (oracle)"
"""End of the name of a variant that is shown gold, wherever it stands."""
REPAIR = "shared/repair"
PACKAGES = ("hopgraph", "langgraph", "langchain-core", "chromadb", "bm25s", "numpy")


@dataclass(frozen=True)
class Variant:
    """A method with its settings."""

    name: str
    """Unique in a run: the method's id, and what is different where several variants have the same method."""
    values: Mapping[str, Any]
    """The settings that were given."""
    context: Context
    """With the defaults filled in."""

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
    """The method as it is, and without each part that its paper's ablation table takes out.

    Raises:
        InputError: The method is unknown, or has no ablations.
    """
    field = context_class(method).model_fields.get("ablate")
    parts = [part for item in get_args(field.annotation) for part in get_args(item)] if field else []
    if not parts:
        raise InputError(f"--ablations: {method} has none", hint="its context has no field `ablate`")
    if values.get("ablate"):
        raise InputError("--ablations: `ablate` is what it sets itself", hint="leave --set ablate=... out")
    whole = _variant(method, method, values)
    return [whole, *(_variant(f"{method} -{part}", method, {**values, "ablate": [part]}) for part in parts)]


def overlays(method: str, folders: Sequence[Path], values: Mapping[str, Any]) -> list[Variant]:
    """The method with the prompts of each folder; what a folder lacks is as shipped, or as in HOPGRAPH_PROMPTS.

    A single folder is compared with the method as it is without it. The texts become settings of the variant, so that
    they are kept with the run and no later edit reaches it.

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
            f"--overlay: the prompts of {folders[0]} are those that {method} has without it",
            hint="change one, or unset HOPGRAPH_PROMPTS if it names that folder",
        )
    return [plain, *variants]


def _texts(method: str, folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        raise InputError(f"--overlay: no such folder: {folder}")
    check_names(folder)
    if (folder / f"{REPAIR}.md").exists():
        raise InputError(
            f"{folder / REPAIR}.md: the repair prompt can't be compared", hint="HOPGRAPH_PROMPTS replaces it for all"
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
        InputError: There is no such suite, a setting is the suite's own or wrong for one of its rows, or it needs an
            index and none is named.
    """
    if name not in SUITES:
        raise InputError(f"--suite: there is no {name!r}", hint=f"suites: {', '.join(SUITES)}")
    found = SUITES[name]
    own = sorted({setting for row in found.rows for setting in row.settings} - {"index"})
    if taken := [setting for setting in own if setting in values]:
        raise InputError(f"--suite: `{taken[0]}` is what {name} sets itself", hint=f"leave --set {taken[0]}=... out")
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
        raise InputError("review: an evaluation has nobody to ask", hint="leave `review` out")
    return Variant(name, dict(values), context)


def restore(about: Mapping[str, Any]) -> list[Variant]:
    """The variants of a run, from its `run.json`."""
    return [_variant(row["name"], row["method"], row["values"]) for row in about["variants"]]


def identity(
    variants: Sequence[Variant],
    questions: Sequence[Question],
    *,
    dataset: str,
    contexts: bool,
    index: Mapping[str, str] | None,
    models: Mapping[str, str],
) -> dict[str, Any]:
    """All that the results depend on: two runs may be mixed if and only if this is the same.

    No secret is in it: of request fields that a person set it has a hash.

    Args:
        variants: What is run.
        questions: What is asked.
        dataset: Where it is from.
        contexts: Whether the questions' own passages are handed over with them.
        index: Name and hash of the index, if one is searched.
        models: Names of the models at the endpoint, by what they do.

    Raises:
        InputError: A prompt or the file of exemplars can't be read.
    """
    settings = get_settings()
    exemplars = settings.exemplars
    try:
        own_exemplars = digest(exemplars.read_bytes()) if exemplars else None
    except OSError as error:
        raise InputError(f"HOPGRAPH_EXEMPLARS: {exemplars}: {error.strerror}") from None
    return {
        "dataset": dataset,
        "questions": {"count": len(questions), "hash": digest([as_row(question) for question in questions])},
        "contexts": contexts,
        "index": dict(index) if index else None,
        "models": dict(models),
        "HOPGRAPH_LLM_EXTRA": digest(settings.llm_extra) if settings.llm_extra else None,
        "HOPGRAPH_LLM_CONTEXT": settings.llm_context,
        "HOPGRAPH_EXEMPLARS": own_exemplars,
        "HOPGRAPH_EXTRACTOR": str(settings.extractor) if settings.extractor else None,
        "HOPGRAPH_REWRITER": str(settings.rewriter) if settings.rewriter else None,
        "variants": {
            variant.name: {
                "method": variant.method,
                "settings": variant.context.model_dump(mode="json"),
                "prompts": prompt_hashes(variant.context),
            }
            for variant in variants
        },
    }


def surroundings() -> dict[str, Any]:
    """Where and how the model is asked. It may differ when a run goes on: results do not depend on it.

    Keys are left out, and so is what a URL has of a password.
    """
    settings = get_settings()
    urls = ("llm_url", "generator_url", "attribution_url", "judge_url")
    others = ("llm_concurrency", "llm_timeout", "llm_patience", "llm_retries", "judge_model")
    found = {name: without_password(getattr(settings, name) or "") or None for name in urls}
    found |= {name: getattr(settings, name) for name in others}
    return {f"HOPGRAPH_{name.upper()}": value for name, value in found.items()}


def prompt_hashes(context: Context) -> dict[str, str]:
    """Hash of every prompt that a method may use with these settings, by name.

    Raises:
        InputError: One is malformed.
    """
    overrides = {name: (text, field) for field, name in context.prompts().items() if (text := getattr(context, field))}
    names = sorted({*context.prompts().values(), REPAIR})
    return {name: load_prompt(name, *overrides.get(name, ())).hash for name in names}


def versions() -> dict[str, str]:
    """Versions of what the results were made with."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def digest(value: Any) -> str:
    """Sixteen hex digits of the SHA-256 of bytes, or of a value as JSON."""
    raw = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True, ensure_ascii=False).encode()
    return hashlib.sha256(raw).hexdigest()[:16]
