"""A scripted reader: what it writes of a passage follows from the passage alone, so readings can be compared."""

from __future__ import annotations

import re
from typing import Any

from stores.build import build_index
from stores.passages import Passage
from tests.scripted import Request

_PASSAGE = re.compile(r'<passage number="1" title="([^"]*)">\n(.*?)\n</passage>', re.DOTALL)
TOWNS = ["Paris", "Rome", "Oslo", "Cairo", "Lima", "Quito", "Delhi", "Tokyo", "Accra", "Vienna", "Madrid", "Berlin"]


def corpus(count: int = 12, name: str = "towns") -> str:
    """An index of small passages, `p00`, `p01`, ..."""
    rows = [
        Passage(
            id=f"p{number:02}",
            title=f"Person {number}",
            text=f"Person {number} was born in {TOWNS[number % len(TOWNS)]} in {1900 + number}. "
            f"Person {number} died in {TOWNS[(number + 5) % len(TOWNS)]}.",
        )
        for number in range(count)
    ]
    build_index(name, rows)
    return name


def read_passage(request: Request) -> tuple[str, str]:
    """Title and text of the passage in a request; a repair's request has it, too."""
    user = next(m["content"] for m in request.body["messages"] if m["role"] == "user")
    title, text = _PASSAGE.findall(user)[0]
    return title, text


def reader(request: Request) -> dict[str, Any]:
    """Two true pairs and one whose answer does not stand in the passage."""
    title, text = read_passage(request)
    town, year, grave = re.findall(r"born in (\w+) in (\d+)\..*died in (\w+)", text)[0]
    if request.node == "coverage_repairer":
        return {"qa": [{"question": f"Where did {title} die?", "answer": grave}]}
    pairs = [
        {"question": f"Where was {title} born?", "answer": town},
        {"question": f"When was {title} born?", "answer": year},
        {"question": f"What was {title}?", "answer": "a painter"},
    ]
    return {"atomic_facts": [f"{title} was born in {town}."], "qa": pairs}
