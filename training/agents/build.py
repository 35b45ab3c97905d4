"""Builds the examples that teach a model all roles of all methods.

python -m training.agents.build --data ../shared/data --to OUT

Perfect agents play training questions through the real graphs, over an index of the questions' passages in `OUT/home`.
The prompts and replies of runs that ended well become `OUT/train.jsonl` and `OUT/heldout.jsonl`; `OUT/report.md` counts
them.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hopgraph.evaluation.metrics import normalise
from hopgraph.methods import METHODS
from hopgraph.simulation.agents import roles
from hopgraph.simulation.kit import NO_ANSWER
from inference.errors import StoreError
from inference.settings import overridden
from stores.index import open_index
from training.agents.play import Exchange, Round, index_lessons, play, read_at_once, read_lessons
from training.agents.questions import DIRECTION, Lesson, lessons
from training.agents.variants import (
    adding_variants,
    comparing_variants,
    decomposing_variants,
    drawing_variants,
    judging_variants,
    reading_variants,
)
from training.command import guarded, parser
from training.lora.chats import Chat, ChatMessage
from training.lora.prompts import prompt_hashes
from training.measures import table
from training.rows import write_rows
from training.words import normalised

KINDS = ("decomposed", "whole", "single")
INDEX = "school"
PAIRS = "school-pairs"
HELD_OUT = 20
"""One question in this many is held out."""
SINGLE = (
    "standard_rag",
    "hanrag",
    "adaptive_rag",
    "self_ask",
    "prunerag",
    "parrag",
    "prism",
    "search_o1",
    "react",
    "ircot",
)
"""Methods that play questions of one hop."""
FEWER = (3, 5)
"""Passages of a search, for questions of one hop and two thirds of the others: shorter prompts are learned
from in less time, and the embedded model searches for three."""
_USUAL = 60
QUOTAS: Mapping[str, int] = {
    "adaptive_rag/router": 160,
    "compactrag/decomposer": 320,
    "compactrag/generator": 140,
    "hanrag/ending_discriminator": 320,
    "hanrag/generator": 420,
    "hanrag/refiner": 360,
    "hanrag/relevance_discriminator": 200,
    "hanrag/router": 120,
    "hanrag/synthesizer": 800,
    "parrag/accuracy_judge": 160,
    "parrag/actor": 960,
    "parrag/attribution_judge": 120,
    "parrag/generator": 800,
    "parrag/planner": 320,
    "parrag/refiner": 160,
    "prism/analyzer": 200,
    "prism/generator": 300,
    "prism/selector": 240,
    "probtree/child_aggregating": 120,
    "probtree/decomposer": 100,
    "prunerag/decomposer": 75,
    "search_o1/reasoner": 140,
    "self_ask/asker": 240,
    "self_ask/generator": 140,
    "standard_rag/generator": 520,
    "no_retrieval/generator": 0,
    "adaptive_retrieval/generator": 0,
}
"""Most examples of a skill; of others, `_USUAL`. Long prompts cost most, so their skills have fewer."""
VERDICTS = frozenset(
    {
        "adaptive_rag/router",
        "hanrag/ending_discriminator",
        "hanrag/relevance_discriminator",
        "hanrag/router",
        "parrag/accuracy_judge",
        "parrag/attribution_judge",
    }
)
"""Skills whose examples are chosen by the reply and the number of facts: no verdict is learned because it is frequent,
nor from the easy questions alone."""
MULTI_HOP = frozenset(
    {
        "compactrag/decomposer",
        "hanrag/refiner",
        "parrag/generator",
        "parrag/planner",
        "prism/adder",
        "prism/analyzer",
        "prism/selector",
        "probtree/decomposer",
        "prunerag/decomposer",
        "self_ask/asker",
    }
)
"""Skills that take questions apart, gather for them, or conclude. Questions of one hop teach them to repeat the
question, to be content with one passage, or to copy."""
SINGLES = 0.15
"""Greatest share of such a skill's examples from questions of one hop."""
_NOTHING = '{"evidence": []}'
_UNNAMED = "the answer to “"
"""How an unknown answer is described where the data gives no relation: nobody would ask so."""
ABSTAINING = 0.08
"""Greatest share of a skill's examples whose reply is that there is no answer, or no sentence to select."""


PLAYERS = tuple(name for name in METHODS if roles(name) and name != "compactrag")
"""Methods that play decomposed questions; CompactRAG plays some over pairs instead of passages."""


def rounds_of(
    lessons: Sequence[Lesson], seed: int, each: int, whole: int, single: int, players: Sequence[str] = PLAYERS
) -> list[Round]:
    """What is played: every decomposed question by `each` methods, and some of the other kinds, over fewer passages.

    Args:
        lessons: All.
        seed: Decides which methods play what.
        each: Methods that play a decomposed question, of `players` at most all.
        whole: Decomposed questions that Standard RAG answers, too.
        single: Questions of one hop.
        players: The methods that they are drawn from.
    """
    dice = random.Random(seed)  # noqa: S311
    of = {kind: [one for one in lessons if one.kind == kind] for kind in KINDS}
    played = []
    for lesson in of["decomposed"]:
        for method in dice.sample(players, min(each, len(players))):
            wrong = 0.15 if dice.random() < 0.2 else 0.0
            played.append(Round(lesson, method, dice.choice(["hybrid", "bridge"]), wrong, dice.choice((0, *FEWER))))
    for lesson in dice.sample(of["decomposed"], min(whole, len(of["decomposed"]))):
        played.append(Round(lesson, "standard_rag", "bridge", 0.0))
    for lesson in dice.sample(of["single"], min(single, len(of["single"]))):
        played.append(Round(lesson, dice.choice(SINGLE), "hybrid", 0.0, dice.choice(FEWER)))
    return list({one.thread: one for one in played}.values())


def is_held_out(question: str) -> bool:
    """Whether a question is held out, by the hash of its words; a comparison together with the one turned from it."""
    words = normalised(DIRECTION.sub("", question))
    return int(hashlib.sha256(words.encode()).hexdigest(), 16) % HELD_OUT == 0


def as_chat(exchange: Exchange) -> Chat:
    """An exchange as an example, labelled by what it decides (a verdict, asking on, answering, which of two), or by the
    question."""
    lesson = exchange.round.lesson
    prompt = [ChatMessage(role=message.role, content=message.content) for message in exchange.messages]
    facts = json.dumps([prompt, exchange.reply])
    skill = f"{exchange.round.method}/{exchange.node}"
    label: str = lesson.kind
    if skill in VERDICTS:
        label = f"{exchange.reply} of {len(lesson.case.facts)}"
    elif exchange.reply == _NOTHING or NO_ANSWER in exchange.reply or "I don't know" in exchange.reply:
        label = "abstains"
    elif lesson.kind != "single":
        reply = json.loads(exchange.reply)
        # A comparison is not a third kind of decision: two answers to one question teach to answer too early.
        compares = exchange.compares is not None and normalise(exchange.compares) not in ("yes", "no")
        label = str(reply.get("type") or reply.get("action") or (compares and "compares") or label)
    return Chat(
        id=hashlib.sha256(facts.encode()).hexdigest()[:16],
        skill=skill,
        label=label,
        source=lesson.source,
        question=lesson.case.question,
        prompt=prompt,
        completion=[ChatMessage(role="assistant", content=exchange.reply)],
        schema=exchange.schema,
    )


def chosen(chats: Iterable[Chat], quotas: Mapping[str, int], seed: int, scale: float = 1.0) -> list[Chat]:
    """At most the quota of each skill, times `scale`: of each label all or an equal share, few of them abstaining.

    Of `MULTI_HOP` it is an equal share of each data set: most questions have 2WikiMultiHopQA's few patterns.
    All that is asked about the passages of a question is chosen together; of comparisons, whose values are drawn, many
    questions are. The choice does not depend on the order.
    """

    def place(chat: Chat) -> str:
        if chat["label"] == "compares":
            return hashlib.sha256(f"{seed}\0{chat['id']}".encode()).hexdigest()
        return hashlib.sha256(f"{seed}\0{chat['question']}".encode()).hexdigest() + chat["id"]

    of: dict[str, dict[str, list[Chat]]] = defaultdict(lambda: defaultdict(list))
    for chat in sorted({chat["id"]: chat for chat in chats}.values(), key=place):
        by_source = chat["skill"] in MULTI_HOP and chat["label"] == "decomposed"
        of[chat["skill"]][chat["source"] if by_source else chat["label"]].append(chat)
    kept: list[Chat] = []
    for skill, labels in sorted(of.items()):
        room = round(scale * quotas.get(skill, _USUAL))
        silent = labels.pop("abstains", [])
        kept += silent[: round(room * ABSTAINING) if labels else room]
        room -= round(room * ABSTAINING) if labels else room
        if skill in MULTI_HOP and len(labels) > 1:
            single = labels.pop("single", [])[: round(room * SINGLES)]
            kept += single
            room -= len(single)
        for number, rows in enumerate(sorted(labels.values(), key=len)):
            share = rows[: room // (len(labels) - number)]
            kept += share
            room -= len(share)
    return kept


def report(train: Sequence[Chat], held: Sequence[Chat]) -> str:
    """Markdown: examples by skill, label and source."""
    counts = [Counter((row["skill"], row["label"], row["source"]) for row in rows) for rows in (train, held)]
    keys = sorted({*counts[0], *counts[1]})
    return table(
        ["skill", "label", "source", "train", "held out"],
        [(*key, *(of[key] for of in counts)) for key in keys],
        texts=3,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    flags = parser("agents.build", "Build the examples that teach a model all roles.")
    flags.add_argument("--data", type=Path, required=True, help="folder with train/ and the data sets")
    flags.add_argument("--to", type=Path, required=True, help="folder to write")
    flags.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS, help="kinds of questions")
    flags.add_argument("--methods", type=int, default=4, help="methods that play each decomposed question")
    flags.add_argument("--players", nargs="+", default=PLAYERS, choices=PLAYERS, help="methods to draw these from")
    flags.add_argument("--whole", type=int, default=900, help="multi-hop questions of a kind that Standard RAG answers")
    flags.add_argument("--single", type=int, default=900, help="questions of one hop")
    flags.add_argument("--pairs", type=int, default=400, help="questions that CompactRAG plays")
    flags.add_argument("--scale", type=float, default=1.0, help="factor of all quotas: fewer examples, less time")
    flags.add_argument("--seed", type=int, default=0, help="decides who plays what, and which examples are chosen")
    options = flags.parse_args(arguments)
    return guarded(lambda: _build(options))


def _build(options: Namespace) -> str:
    taught = [one for one in lessons(options.data) if one.kind in options.kinds]
    dice = random.Random(options.seed)  # noqa: S311
    of = {kind: [one for one in taught if one.kind == kind] for kind in KINDS}
    decomposed, single = of["decomposed"], dice.sample(of["single"], min(2000, len(of["single"])))
    taught = [*decomposed, *single]
    with overridden(home=options.to / "home"):
        if taught:
            try:
                open_index(INDEX)
            except StoreError:
                index_lessons(INDEX, taught)
        rounds = rounds_of(taught, options.seed, options.methods, options.whole, options.single, options.players)
        some = dice.sample(decomposed, min(options.pairs, len(decomposed)))
        if some:
            read_lessons(PAIRS, some)
        from_pairs = [Round(lesson, "compactrag", "dense", 0.0) for lesson in some]
        played = [*play(from_pairs, PAIRS), *play(rounds, INDEX)]
    exchanges = [one for one in played if one.is_lesson]
    whole = dice.sample(of["whole"], min(options.whole, len(of["whole"])))
    exchanges += [
        *read_at_once(whole, options.seed),
        *reading_variants(exchanges, taught, options.seed),
        *judging_variants(exchanges, taught, options.seed),
        *adding_variants(exchanges, taught, options.seed),
        *decomposing_variants(exchanges, taught, options.seed),
    ]
    exchanges += [*comparing_variants(exchanges), *drawing_variants(exchanges, options.seed)]
    chats = chosen(
        (as_chat(one) for one in exchanges if _UNNAMED not in one.reply), QUOTAS, options.seed, options.scale
    )
    held = [chat for chat in chats if is_held_out(chat["question"])]
    train = [chat for chat in chats if not is_held_out(chat["question"])]
    options.to.mkdir(parents=True, exist_ok=True)
    write_rows(options.to / "train.jsonl", train)
    write_rows(options.to / "heldout.jsonl", held)
    rounds += from_pairs
    facts = {"seed": options.seed, "rounds": len(rounds), "train": len(train), "heldout": len(held)}
    write_rows(options.to / "build.json", [facts | {"prompts": prompt_hashes()}])
    text = report(train, held)
    (options.to / "report.md").write_text(text + "\n", "utf-8")
    return f"{len(rounds)} rounds, {len(exchanges)} exchanges, {len(train)} examples, {len(held)} held out\n"


if __name__ == "__main__":
    sys.exit(main())
