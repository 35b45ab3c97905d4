"""Identity of a run: all that its results depend on; checked at the start, kept in `run.json`, compared on resume."""

from __future__ import annotations

import asyncio
import hashlib
import json
import platform
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from hopgraph.evaluation.data import Question, as_row
from hopgraph.evaluation.folder import RunFolder, differences
from hopgraph.evaluation.gold import known_by
from hopgraph.evaluation.oracle import Oracle
from hopgraph.evaluation.plan import Variant, prompt_hashes
from hopgraph.evaluation.shards import Shard
from hopgraph.evaluation.simulated import is_simulated
from inference.base_url import split_urls
from inference.errors import InputError
from inference.settings import Role, get_settings
from stores.checkpoint_errors import without_password

PACKAGES = ("hopgraph", "langgraph", "langchain-core", "chromadb", "bm25s", "numpy")
MAY_DIFFER = "What may differ: the endpoint's URL and key, its concurrency, time-outs and patience, --price, --judge"
"""Allowed differences on resume: no result depends on them."""


async def check(
    variants: Sequence[Variant], questions: Sequence[Question], *, dataset: str, contexts: bool
) -> dict[str, Any]:
    """Check that everything a run needs is available, before any cost; returns its identity.

    Raises:
        InputError: A prompt or a setting is invalid, or `contexts` is set and a question has none.
        StoreError: The index is missing.
        EndpointError: The endpoint can't be used.
    """
    if get_settings().otel == "on":
        from hopgraph.telemetry import tracer

        tracer()
    for variant in variants:
        await asyncio.to_thread(variant.context.check)
    if contexts and (bare := next((question for question in questions if not question.contexts), None)):
        raise InputError(f"--contexts: question {bare.id} has no passages of its own")
    indexes = [] if contexts else await asyncio.to_thread(_indexes, variants)
    gold = await asyncio.to_thread(known_by, questions, indexes, contexts=contexts)
    models = await _models(variants)
    found = await asyncio.to_thread(
        lambda: _identity(
            variants,
            questions,
            dataset=dataset,
            contexts=contexts,
            index=indexes[0] if indexes else None,
            models=models,
        )
    )
    bases = await asyncio.to_thread(_knowledge_bases, variants)
    found |= {"gold": gold, "knowledge_base": bases[0] if bases else None}
    found |= {"other_indexes": indexes[1:], "other_knowledge_bases": bases[1:]} if indexes[1:] else {}
    await asyncio.to_thread(_check_oracle, variants, questions, found)
    return found


def start(
    folder: RunFolder,
    variants: Sequence[Variant],
    questions: Sequence[Question],
    found: Mapping[str, Any],
    about: Mapping[str, Any],
) -> None:
    """Start a run in its folder, or check that the folder's run has the same identity.

    Args:
        folder: The run's folder.
        variants: The run's variants.
        questions: The run's questions.
        found: The identity, from `check`.
        about: Other fields of `run.json`.

    Raises:
        InputError: The folder holds another run or other files; the message lists the differences.
    """
    if folder.started:
        known = folder.about()
        old, new = ({"shard": str(shard)} if (shard := Shard.of_run(row)) else {} for row in (known, about))
        if changed := differences(old, new) + differences(known["identity"], found):
            more = f"; and {len(changed) - 5} more" if len(changed) > 5 else ""
            raise InputError(
                f"{folder.path} holds a run that differs: {'; '.join(changed[:5])}{more}",
                hint="results of two runs are not mixed: undo the change, or start another run with another --out. "
                f"{MAY_DIFFER}",
            )
        return
    rows = [
        {"name": v.name, "method": v.method, "values": dict(v.values)}
        | ({"oracle": v.context.oracle} if v.context.oracle else {})
        for v in variants
    ]
    created = datetime.now(UTC).isoformat(timespec="seconds")
    text = {"run": str(uuid.uuid4()), "created": created, **about, "variants": rows}
    folder.create({**text, "versions": versions(), "surroundings": surroundings(), "identity": found}, list(questions))


def _identity(
    variants: Sequence[Variant],
    questions: Sequence[Question],
    *,
    dataset: str,
    contexts: bool,
    index: Mapping[str, str] | None,
    models: Mapping[str, str],
) -> dict[str, Any]:
    """The identity without gold and knowledge bases: results of two runs may be mixed only if it is equal.

    It has no secrets: extra request fields are hashed.
    """
    settings = get_settings()
    exemplars = settings.exemplars
    try:
        own_exemplars = _digest(exemplars.read_bytes()) if exemplars else None
    except OSError as error:
        raise InputError(f"HOPGRAPH_EXEMPLARS: {exemplars}: {error.strerror}") from None
    return {
        "dataset": dataset,
        "questions": {"count": len(questions), "hash": hash_of_questions(questions)},
        "contexts": contexts,
        "index": dict(index) if index else None,
        "models": dict(models),
        "HOPGRAPH_LLM_EXTRA": _digest(settings.llm_extra) if settings.llm_extra else None,
        "HOPGRAPH_LLM_CONTEXT": settings.llm_context,
        "HOPGRAPH_EXEMPLARS": own_exemplars,
        "HOPGRAPH_EXTRACTOR": str(settings.extractor) if settings.extractor else None,
        "HOPGRAPH_REWRITER": str(settings.rewriter) if settings.rewriter else None,
        "reranker": _reranker(variants),
        "variants": {
            variant.name: {
                "method": variant.method,
                "settings": variant.context.model_dump(mode="json"),
                "prompts": prompt_hashes(variant.context),
            }
            for variant in variants
        },
    }


def _reranker(variants: Sequence[Variant]) -> str | None:
    """The cross-encoder that reranks, by name; None if none does."""
    if all(variant.context.rerank != "model" for variant in variants):
        return None
    from inference.rerankers.configured import check_reranker

    return check_reranker()


def hash_of_questions(questions: Sequence[Question]) -> str:
    """Hash of questions with all their fields, in their order."""
    return _digest([as_row(question) for question in questions])


def surroundings() -> dict[str, Any]:
    """Endpoint settings, without API keys and passwords in URLs; they may differ on resume."""
    settings = get_settings()
    urls = ("llm_url", "generator_url", "synthesizer_url", "accuracy_url", "attribution_url", "judge_url", "rerank_url")
    others = ("llm_concurrency", "llm_timeout", "llm_patience", "llm_retries", "judge_model")
    found = {name: ",".join(map(without_password, split_urls(getattr(settings, name) or ""))) or None for name in urls}
    found |= {name: getattr(settings, name) for name in others}
    return {f"HOPGRAPH_{name.upper()}": value for name, value in found.items()}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _digest(value: Any) -> str:
    """Sixteen hex digits of the SHA-256 of bytes, or of a value as JSON."""
    raw = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True, ensure_ascii=False).encode()
    return hashlib.sha256(raw).hexdigest()[:16]


def _indexes(variants: Sequence[Variant]) -> list[dict[str, str]]:
    """Name and hash of each index searched, usually one."""
    from nodes.kit.passages import index_ref

    names = dict.fromkeys(variant.context.index for variant in variants if variant.context.searches)
    return [dict(index_ref(name)) for name in names]  # type: ignore[arg-type]


def _knowledge_bases(variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """The knowledge bases that the methods need, with their progress."""
    from nodes.kit.knowledge import pairs_ref
    from nodes.kit.passages import index_ref

    names = dict.fromkeys(variant.context.index for variant in variants if variant.context.knowledge_base)
    found: list[dict[str, Any]] = []
    for ref in (index_ref(name) for name in names):
        # Only simulated ones get the key: identities of earlier runs stay equal.
        found.append({**pairs_ref(ref), **({"simulated": True} if _read_by_agents(ref["name"]) else {})})
    return found


def _read_by_agents(index: str) -> bool:
    """Whether perfect agents read any passage."""
    from stores.index import open_index
    from stores.knowledge_base import open_pairs

    return any(is_simulated(reading.model) for reading in open_pairs(open_index(index)).readings())


def oracle_of(variants: Sequence[Variant], questions: Sequence[Question], identity: Mapping[str, Any]) -> Oracle:
    """The gold that oracle variants are shown."""
    index = None if identity["contexts"] else (identity["index"] or {}).get("name")
    return Oracle([v.context for v in variants], questions, index=index, gold=identity["gold"])


def _check_oracle(variants: Sequence[Variant], questions: Sequence[Question], identity: Mapping[str, Any]) -> None:
    """Check that every question has the gold that oracle variants need."""
    seeing = [variant for variant in variants if variant.context.oracle]
    oracle = oracle_of(seeing, questions, identity)
    for variant in seeing:
        for question in questions:
            oracle.shown(variant.context, question)


async def _models(variants: Sequence[Variant]) -> dict[str, str]:
    """Models by role; checks that each endpoint is reachable."""
    from nodes.kit.model import model_of, open_endpoint

    settings = get_settings()
    models: dict[str, str] = {}
    for context in (variant.context for variant in variants):
        roles: list[Role] = ["llm"]
        if settings.generator_url or settings.generator_model or context.generator_model:
            roles.append("generator")
        for role in (*roles, *context.roles):
            endpoint = await open_endpoint(model_of(context, role), role)
            models[role] = await endpoint.check()
    return models
