"""What the Revelator's encoder is trained on: the examples that a language model is tuned on, and some more.

Only router, relevance and ending are classification; the rest of `examples` is left to a language model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from inference.limits import UNKNOWN
from training.revelator.chains import musique_turns, one_line, read_more_chains
from training.revelator.examples import ROUTES as ROUTE_LABELS
from training.revelator.examples import Example, Turn, divided
from training.revelator.sources import all_examples
from training.rows import objects_of, rows_of, text_of

EncoderSkill = Literal["router", "relevance", "ending"]
SKILLS: tuple[EncoderSkill, ...] = get_args(EncoderSkill)

_PARAGRAPHS = 12
"""Of SQuAD one question in this many is shown with paragraphs: they are long."""
_ONE_STEP = 40
"""Of SQuAD one question in this many is a chain of one step."""


def divided_examples(data: Path) -> tuple[list[Example], list[Example], list[Example]]:
    """Examples to train on, to calibrate on (a tenth of the rest), and held out ones.

    Beside those that `all_examples` makes:
    - relevance: a whole multi-hop question with its supporting paragraphs and all its distractors, HotpotQA's too;
    - router: questions of more training sets (`_MORE`), so that a route is not told by its data set's style;
    - ending: more chains; an unknown last answer does not end a chain, and a hop that was asked again in other words
      does not stand in the way of its end; and a one-hop question is answered by one step, for questions that are
      taken for complex by mistake (App. B.4 does so for the refiner).

    Raises:
        InputError: A file is missing or malformed.
    """
    train, held, _ = all_examples(data)
    chains = [row for row in train + held if row.skill == "ending" and row.turns[-1].answer != UNKNOWN]
    chains += _more_chains(data)
    rest, held_too, _ = divided(
        [*_whole_questions(data), *_more_routes(data), *chains, *_unknown_ends(chains), *_single_steps(data)], data
    )
    seen = {example.id for example in train + held}
    rest, held_too = ([example for example in rows if example.id not in seen] for rows in (rest, held_too))
    known = [
        example
        for example in train + rest
        if example.skill in SKILLS and not (_is_paragraph(example) and _number(example.root) % _PARAGRAPHS)
    ]
    measured = [example for example in held + held_too if example.skill in SKILLS]
    calibration = [example for example in known if is_for_calibration(example.root)]
    return [example for example in known if not is_for_calibration(example.root)], calibration, measured


def is_for_calibration(root: str) -> bool:
    """Whether a question that is not held out is kept for calibration: a tenth, by hash."""
    return _number(f"calibration {root}") % 10 == 0


def is_recalled(example: Example) -> bool:
    """Whether an example about relevance is kept where training starts from trained weights: one question in four."""
    return _number(f"recalled {example.root}") % 4 == 0


def label_of(example: Example) -> int:
    """The example's class: index of the route, or 1 for relevant or ended and 0 for not."""
    return ROUTE_LABELS.index(str(example.target)) if example.skill == "router" else int(bool(example.target))


def passage_of(example: Example) -> str:
    """The passage of an example about relevance, as the encoder reads it."""
    return f"{example.title}\n{example.text}"


def dev_chains(data: Path, name: str, *, unknown: bool = False) -> list[Example]:
    """Chains of a data set's dev questions, whole and broken off: to measure with, never to train on.

    Args:
        data: The data folder.
        name: The data set.
        unknown: The whole chains alone, each with an unknown last answer: none of them is sufficient.

    Raises:
        InputError: The file is missing or malformed.
    """
    found = []
    for where, row in rows_of(data / name / "questions.jsonl.gz"):
        question = text_of(row, "question", where)
        parts = [part for part in row.get("decomposition", ()) if isinstance(part, dict)]
        if not all(part.get("answer") for part in parts):
            continue
        turns = musique_turns(row, [(text_of(part, "question", where), str(part["answer"])) for part in parts])
        for length in range(1, len(turns) + 1):
            ended, source = length == len(turns), f"{name}, {row.get('type', '')}"
            if not unknown:
                found.append(Example("ending", source, question, question, ended, tuple(turns[:length])))
            elif ended:
                known = (*turns[:-1], replace(turns[-1], answer=UNKNOWN))
                found.append(Example("ending", source, question, question, False, known))
    return found


def _is_paragraph(example: Example) -> bool:
    return example.skill == "relevance" and "squad" in example.source


def _whole_questions(data: Path) -> Iterator[Example]:
    for where, row in rows_of(data / "train" / "multihop_context.train.jsonl.gz"):
        question, source = text_of(row, "question", where), str(row.get("source", ""))
        for one in objects_of(row, "paragraphs", where):
            supports = bool(one.get("is_supporting"))
            title, text = str(one.get("title", "")), text_of(one, "text", where)
            yield Example("relevance", source, question, question, supports, title=title, text=text)


_MORE: Mapping[str, tuple[str, int]] = {
    "single_hop_qed.train": ("single-step", 2000),
    "extractor.train": ("single-step", 2000),
    "hop_count.train": ("", 3000),
    "multihop_context_more.train": ("complex", 2500),
    "multihop_gold_sentences.train": ("complex", 1300),
    "react_trajectories.train": ("complex", 700),
}
"""More questions: file, route ("": by hops), and how many rows at most."""


def _more_routes(data: Path) -> Iterator[Example]:
    for name, (route, most) in _MORE.items():
        rows = list(rows_of(data / "train" / f"{name}.jsonl.gz"))
        rows.sort(key=lambda found: _number(f"{name} {found[1].get('question')}"))
        for where, row in rows[:most]:
            question = one_line(text_of(row, "question", where))
            said = route or ("single-step" if row.get("hops") == 1 else "complex")
            yield Example("router", str(row.get("source") or name), question, question, said)


def _more_chains(data: Path) -> Iterator[Example]:
    for chain in read_more_chains(data / "train"):
        for length in range(1, len(chain.turns) + 1):
            ended = length == len(chain.turns)
            yield Example("ending", chain.source, chain.question, chain.question, ended, chain.turns[:length])


def _unknown_ends(chains: Sequence[Example]) -> Iterator[Example]:
    """Each chain with its last hop unknown, which ends none; every other one asks that hop again and knows it then."""
    for chain in chains:
        unknown = replace(chain.turns[-1], answer=UNKNOWN)
        *before, last = chain.turns
        source = f"{chain.source}, last hop unknown"
        yield replace(chain, source=source, target=False, turns=(*before, unknown))
        if _number(f"again {chain.root} {len(before)}") % 2:
            yield replace(chain, source=f"{chain.source}, asked again", turns=(*before, unknown, last))


def _single_steps(data: Path) -> Iterator[Example]:
    for where, row in rows_of(data / "train" / "single_span_qa.train.jsonl.gz"):
        asked, source = text_of(row, "question", where), f"{row.get('source', '')}, one step"
        if _number(asked) % _ONE_STEP == 0:
            for ended, said in ((True, text_of(row, "answer", where)), (False, UNKNOWN)):
                yield Example("ending", source, asked, asked, ended, (Turn(asked, said),))


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)
