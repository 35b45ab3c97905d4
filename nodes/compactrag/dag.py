"""CompactRAG's dependency graph of sub-questions: cycles removed, waves assigned, references resolved (Sec. 3.2.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nodes.compactrag.state import SubQuestion
from nodes.kit.rendering import UNKNOWN, plain

_REFERENCE = re.compile(r"(?<![\w&#])#(\d{1,3})\b")
_LITERAL = "＃"
"""Replaces `#` before a number that is not a reference while references are parsed."""


def build_dag(
    rows: Sequence[tuple[str, Sequence[int]]], question: str, most: int
) -> tuple[list[SubQuestion], list[str]]:
    """Sub-questions in the order given, without bad references and cycles, and their problems as text.

    A reference to a missing sub-question, or to itself, is taken to mean the one just before. Where one
    is 0 and all make sense counted from 0, they are. A cycle is cut at the earliest sub-question of it, which then does
    without the answers that need its own. Where a reference goes, its text gets "someone", "some place", "some time" or
    "something", by what the other sub-question asks. What looks like a reference but occurs in the user's question (a
    number on a shirt) is none, and has another number sign until it is rewritten.

    Args:
        rows: Text and dependencies, by number from 1, of each sub-question.
        question: The user's question.
        most: Further ones are left out.
    """
    own = set(_REFERENCE.findall(question))
    numbers = {old: new for new, old in enumerate([n for n, (text, _) in enumerate(rows, 1) if plain(text)][:most], 1)}
    texts = {
        old: _REFERENCE.sub(
            lambda match: f"{_LITERAL}{match[1]}" if match[1] in own else match[0], plain(rows[old - 1][0])
        )
        for old in numbers
    }
    named = {old: map(int, _REFERENCE.findall(text)) for old, text in texts.items()}
    wanted = {old: list(dict.fromkeys([*rows[old - 1][1], *named[old]])) for old in numbers}
    plan, problems = [], []
    if left_out := sum(bool(plain(text)) for text, _ in rows) - len(numbers):
        problems.append(f"{left_out} more sub-questions were left out")
    if shift := int(_from_zero(wanted)):
        problems.append("sub-questions were counted from 0")
    for old, number in numbers.items():
        meant: dict[int, int] = {}
        for ref in wanted[old]:
            to = numbers.get(ref + shift, 0)
            if to in (0, number):
                to = number - 1
                instead = f"taken to mean {to}" if to else "dropped"
                problems.append(f"sub-question {number} can't depend on {ref}: {instead}")
            meant[ref] = to

        def renumber(match: re.Match[str], meant: Mapping[int, int] = meant) -> str:
            to = meant[int(match[1])]
            return f"#{to}" if to else _stand_in(texts.get(int(match[1]) + shift, ""))

        depends_on = list(dict.fromkeys(to for to in meant.values() if to))
        plan.append(_sub_question(number, plain(_REFERENCE.sub(renumber, texts[old])), depends_on))
    return _waves(_acyclic(plan, problems)), problems


def _from_zero(wanted: Mapping[int, Sequence[int]]) -> bool:
    """Whether references count from 0: one is 0, and counted so, each is to an earlier sub-question.

    A plan that counts from 1 and has 0 for "none" is not like that: what needs the one just before would need itself.
    """
    refs = [(ref, old) for old, some in wanted.items() for ref in some]
    return any(ref == 0 for ref, _ in refs) and all(0 < ref + 1 < old for ref, old in refs)


def _sub_question(number: int, question: str, depends_on: list[int]) -> SubQuestion:
    return SubQuestion(
        number=number,
        question=question,
        depends_on=depends_on,
        rewritten="",
        pairs=[],
        answer="",
        answer_from="",
        probability=None,
        wave=0,
    )


def _acyclic(plan: list[SubQuestion], problems: list[str]) -> list[SubQuestion]:
    """The plan with each cycle cut at its earliest sub-question, and nothing else."""
    items = {item["number"]: item for item in plan}
    for item in plan:
        number = item["number"]
        cut = [ref for ref in item["depends_on"] if number in _needed(ref, items)]
        if cut:
            problems.append(f"a cycle was cut: sub-question {number} does without {', '.join(map(str, cut))}")
            text = _replaced(item, {ref: _stand_in(items[ref]["question"]) for ref in cut})
            kept = [ref for ref in item["depends_on"] if ref not in cut]
            items[number] = {**item, "question": plain(text), "depends_on": kept}
    return list(items.values())


_STAND_INS = {"who": "someone", "whom": "someone", "whose": "someone", "where": "some place", "when": "some time"}


def _stand_in(question: str) -> str:
    """Words that take the place of a question's answer, so that a text that referred to it can still be read."""
    first = next(iter(re.findall(r"\w+", question.lower())), "")
    return _STAND_INS.get(first, "something")


def _needed(number: int, items: Mapping[int, SubQuestion]) -> set[int]:
    """A sub-question, those that it depends on, those that they depend on, and so on."""
    found: set[int] = set()
    ahead = [number]
    while ahead:
        if (at := ahead.pop()) not in found:
            found.add(at)
            ahead += items[at]["depends_on"]
    return found


def _waves(plan: list[SubQuestion]) -> list[SubQuestion]:
    """The plan, without cycles, with waves: each sub-question comes after all that it depends on."""
    wave_of: dict[int, int] = {}
    wave = 1
    while len(wave_of) < len(plan):
        waiting = [item for item in plan if item["number"] not in wave_of]
        ready = [item["number"] for item in waiting if all(ref in wave_of for ref in item["depends_on"])]
        wave_of.update(dict.fromkeys(ready, wave))
        wave += 1
    return [{**item, "wave": wave_of[item["number"]]} for item in plan]


def in_wave(plan: Sequence[SubQuestion], wave: int) -> list[SubQuestion]:
    """The sub-questions of a wave."""
    return [item for item in plan if item["wave"] == wave]


def references(item: SubQuestion) -> set[int]:
    """The sub-questions whose answers have a place of their own in the text, `#1`, `#2`, ..."""
    return {int(ref) for ref in _REFERENCE.findall(item["question"])} & set(item["depends_on"])


def fill_references(item: SubQuestion, answers: Mapping[int, str]) -> str:
    """The text with answers in the places of its references."""
    return literal(_replaced(item, {ref: answers.get(ref) or UNKNOWN for ref in references(item)}))


def literal(text: str) -> str:
    """A text with the number signs that the user's question has, too."""
    return text.replace(_LITERAL, "#")


def _replaced(item: SubQuestion, texts: Mapping[int, str]) -> str:
    """The text with others in the places of those references."""
    return _REFERENCE.sub(lambda match: texts.get(int(match[1]), match[0]), item["question"])
