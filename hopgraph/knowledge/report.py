"""Contents of a knowledge base, and the cost of reading it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import mean, median

from stores.index import Index, open_index
from stores.knowledge_base import open_pairs
from stores.pairs import Pairs


@dataclass(frozen=True)
class Tokens:
    """Cost of model calls."""

    calls: int
    prompt: int
    completion: int


@dataclass(frozen=True)
class Report:
    """Contents of a knowledge base, and the cost of reading it."""

    index: str
    hash: str
    """Hash of the index."""
    digest: str
    """Hash of the pairs: equal for equal bases."""
    passages: int
    """Passages of the index."""
    read: int
    failed: int
    left: int
    """Passages not tried yet, or not read because of the endpoint or a deadline."""
    pairs: int
    pairs_per_passage: dict[str, float]
    """Mean, median, least and most, over the passages read."""
    without_pairs: int
    """Passages read without a pair in the base."""
    entities: int
    covered: int
    coverage: float | None
    """Share of spaCy's entities that a pair mentions; None without entities."""
    dropped: dict[str, int]
    """Pairs left out of the base, by cause; `flagged` pairs are in it, although not verbatim."""
    failures: dict[str, int]
    """Failed passages by cause; the next reading retries those of `endpoint` and `deadline`."""
    failed_ids: list[str]
    """The first hundred."""
    repairs: int
    """Calls after unusable replies, included in `tokens` or `coverage_tokens`."""
    tokens: Tokens
    """All calls but those of the coverage repair."""
    coverage_tokens: Tokens
    """Calls of the coverage repair."""
    models: dict[str, int]
    """Passages by the model that read them."""
    prompts: dict[str, list[str]]
    """Hashes of the prompts used, by name."""
    now: dict[str, float] = field(default_factory=dict)
    """This reading alone: passages, calls, tokens, seconds."""


def report(name: str) -> Report:
    """Report on the knowledge base of an index, complete or not.

    Raises:
        StoreError: It is missing, or can't be used.
    """
    index = open_index(name)
    return report_of(index, open_pairs(index), {})


def left(index: Index, base: Pairs) -> int:
    """Number of passages not read yet."""
    return len(index) - len(base.done())


def report_of(index: Index, base: Pairs, refused: Mapping[str, str]) -> Report:
    """Report on a knowledge base.

    Args:
        index: The index it was read from.
        base: The knowledge base.
        refused: Passages that this reading could not read, with the kind of error.
    """
    rows = base.readings()
    good = [row for row in rows if not row.cause]
    bad = [row for row in rows if row.cause]
    counts = Counter(pair.passage for pair in base.all_pairs())
    sizes = [counts[row.passage] for row in good]
    all_sizes = sizes or [0]
    spread = {
        "mean": round(mean(all_sizes), 2),
        "median": median(all_sizes),
        "least": min(all_sizes),
        "most": max(all_sizes),
    }
    dropped: Counter[str] = Counter()
    prompts: dict[str, set[str]] = {}
    for row in rows:
        dropped.update(row.dropped)
        for name, value in row.prompts.items():
            prompts.setdefault(name, set()).add(value)
    entities, covered = sum(row.entities for row in good), sum(row.covered for row in good)
    extra = Tokens(
        sum(row.coverage_calls for row in rows),
        sum(row.coverage_prompt_tokens for row in rows),
        sum(row.coverage_completion_tokens for row in rows),
    )
    failures = Counter([*(row.cause for row in bad), *refused.values()])
    return Report(
        index=index.name,
        hash=index.hash,
        digest=base.digest(),
        passages=len(index),
        read=len(good),
        failed=len(bad),
        left=left(index, base),
        pairs=sum(counts.values()),
        pairs_per_passage=spread,
        without_pairs=sizes.count(0),
        entities=entities,
        covered=covered,
        coverage=round(covered / entities, 4) if entities else None,
        dropped=dict(dropped),
        failures=dict(failures),
        failed_ids=([row.passage for row in bad] + list(refused))[:100],
        repairs=sum(row.repairs for row in rows),
        tokens=Tokens(
            sum(row.calls for row in rows) - extra.calls,
            sum(row.prompt_tokens for row in rows) - extra.prompt,
            sum(row.completion_tokens for row in rows) - extra.completion,
        ),
        coverage_tokens=extra,
        models=dict(Counter(row.model for row in good if row.model)),
        prompts={name: sorted(values) for name, values in sorted(prompts.items())},
    )
