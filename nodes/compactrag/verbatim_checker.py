"""Verbatim checker: selects the model's pairs for the knowledge base (CompactRAG, App. A)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from langgraph.runtime import Runtime

from nodes.compactrag.context import ReaderContext
from nodes.compactrag.state import Dropped, QAPair, ReaderState
from nodes.kit.passages import fetch
from nodes.kit.rendering import plain
from nodes.kit.steps import logged, step

_ALIKE = str.maketrans({"’": "'", "‘": "'", "`": "'", "´": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'})
"""Interchangeable punctuation; each replacement is one character, so offsets stay the same."""
_DASHES = str.maketrans(dict.fromkeys("‐‑‒–—―−", "-"))
_AROUND = " \t\"'.,;:!?()[]"
_WORD = re.compile(r"\w+")


async def verbatim_checker(state: ReaderState, runtime: Runtime[ReaderContext]) -> dict[str, Any]:
    """Check the drafts: an answer must occur verbatim in the passage or its title.

    Differences of case, white space, quotation marks and dashes are ignored, and the answer then takes the passage's
    form. Empty and duplicate pairs are dropped; pairs whose answer is not found are dropped or flagged (`verbatim`).
    Also records the entities that no pair mentions.
    """
    context = runtime.context
    passage = (await fetch(state, [state["source"]["id"]]))[0]
    texts = [plain(passage.text), plain(passage.title)]
    pairs, dropped = list(state["pairs"]), list(state["dropped"])
    known = {_key(pair) for pair in pairs}
    verdicts = {"verbatim": 0, "flagged": 0, "not verbatim": 0, "duplicate": 0, "empty": 0}
    for draft in state["drafts"]:
        found = verbatim(draft["answer"], texts)
        pair: QAPair = {**draft, "answer": found or draft["answer"], "verbatim": found is not None}
        verdict = "verbatim" if found else ("flagged" if context.verbatim == "flag" else "not verbatim")
        if not (_WORD.search(pair["question"]) and _WORD.search(pair["answer"])):
            verdict = "empty"
        elif _key(pair) in known:
            verdict = "duplicate"
        verdicts[verdict] += 1
        if verdict in ("verbatim", "flagged"):
            known.add(_key(pair))
            pairs.append(pair)
        else:
            dropped.append(Dropped(question=draft["question"], answer=draft["answer"], cause=verdict))  # type: ignore[typeddict-item]
    said = [f"{pair['question']} {pair['answer']}" for pair in pairs]
    uncovered = [entity["text"] for entity in state["entities"] if not mentions(said, entity["text"])]
    row = step(
        f"root/verbatim_checker/{1 + state['repaired']}",
        "verify",
        question=state["question"],
        answer=f"not mentioned: {', '.join(uncovered)}" if uncovered and pairs else "",
        verdict=", ".join(f"{count} {verdict}" for verdict, count in verdicts.items() if count) or "no pairs",
        evidence=[passage.id],
    )
    return {
        "pairs": pairs,
        "dropped": dropped,
        "drafts": [],
        "uncovered": uncovered,
        "status": "failed" if state["error"] else "answered",
        **logged(row),
    }


def verbatim(answer: str, texts: Iterable[str]) -> str | None:
    """The answer in the form of the first text that contains it as whole words; None if none does."""
    wanted = [part for part in (_level(answer), _level(answer.strip(_AROUND))) if part]
    for text in texts:
        level = _level(text)
        for part in wanted:
            if (at := _find(part, level)) >= 0:
                return text[at : at + len(part)]
    return None


def mentions(texts: Iterable[str], entity: str) -> bool:
    """Whether one of the texts mentions an entity, ignoring case and a leading article."""
    name = _level(entity).removeprefix("the ").removesuffix("'s")
    return not name or any(_find(name, _level(text)) >= 0 for text in texts)


def _find(part: str, text: str) -> int:
    """Offset of `part` in `text` on word boundaries; -1 if it does not occur."""
    at = text.find(part)
    while at >= 0:
        end = at + len(part)
        begins_inside = at > 0 and _is_word(text[at - 1]) and _is_word(part[0])
        ends_inside = end < len(text) and _is_word(part[-1]) and _is_word(text[end])
        if not (begins_inside or ends_inside):
            return at
        at = text.find(part, at + 1)
    return -1


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


@lru_cache(maxsize=256)  # a pair is looked through for each entity
def _level(text: str) -> str:
    """`text` in lower case with plain quotation marks and dashes, of the same length."""
    lower = "".join(small if len(small := character.lower()) == 1 else character for character in text)
    return lower.translate(_ALIKE).translate(_DASHES)


def _key(pair: QAPair) -> tuple[str, ...]:
    return tuple(" ".join(_WORD.findall(pair[side].casefold())) for side in ("question", "answer"))
