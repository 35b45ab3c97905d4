"""Answers: text with numbered sources for people, and the same as data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from nodes.kit.passages import find
from nodes.kit.rendering import counted, plain

if TYPE_CHECKING:
    from hopgraph.results import Result
    from inference.ledger import Call
    from nodes.kit.events import Event

NO_ANSWER = "No answer was found in the passages."
_SHOWN = 10
"""Sources in the text; the data have all of them."""
_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#!|&~])")
_LONGEST = 200


class Source(TypedDict):
    """A passage that an answer rests on."""

    number: int
    """As in the text, from 1."""
    id: str
    title: str
    text: str
    page: str
    """Where in its document it is, such as `page 3`; "" if unknown."""
    headings: list[str]
    """The path of headings above it, outermost first."""
    file: str
    """The file it was read from; "" if none."""


@dataclass(frozen=True)
class Answer:
    """What a run has come to."""

    result: Result
    sources: list[Source]
    calls: Sequence[Call] = ()
    """Calls made for the chat, before the run."""

    @property
    def text(self) -> str:
        """The answer itself, or that there is none."""
        result = self.result
        return result["answer"] if result["status"] == "answered" else result.get("abstention") or NO_ANSWER

    @property
    def ending(self) -> str:
        """What follows the answer: citations, sources, notes. Markdown."""
        shown = self.sources[:_SHOWN] if self.result["status"] == "answered" else []
        marks = "".join(f"[{source['number']}]" for source in shown)
        lines = [f"[{row['number']}] {_shown(_name(row))} ({_shown(row['id'])})  " for row in shown]
        if (more := len(self.sources) - len(shown)) > 0 and shown:
            lines.append(f"and {counted(more, 'more passage')}  ")
        notes = [f"Note: {note}" for note in self.result.get("notes", [])]
        parts = [f" {marks}" if marks else "", "\n".join(["Sources:  ", *lines]) if shown else "", *notes]
        return "\n\n".join([parts[0], *filter(None, parts[1:])]).rstrip()

    @property
    def cited(self) -> str:
        """The answer with its citations, and its sources, each with its place and file. Plain text."""
        shown = self.sources if self.result["status"] == "answered" else []
        marks = "".join(f"[{source['number']}]" for source in shown)
        lines = [plain(f"[{row['number']}] {_name(row)} ({row['file'] or row['id']})") for row in shown]
        notes = [plain(f"Note: {note}") for note in self.result.get("notes", [])]
        return "\n\n".join(filter(None, [f"{plain(self.text)} {marks}".rstrip(), "\n".join(lines), *notes]))

    @property
    def usage(self) -> dict[str, int]:
        """Tokens of all model calls."""
        cost = self.result["cost"]
        prompt = cost["prompt_tokens"] + sum(call["prompt_tokens"] for call in self.calls)
        written = cost["completion_tokens"] + sum(call["completion_tokens"] for call in self.calls)
        return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}

    @property
    def about(self) -> dict[str, Any]:
        """The result as data."""
        result = self.result
        row: dict[str, Any] = {key: result[key] for key in ("thread", "method", "question", "status", "answer", "cost")}
        return row | {"sources": self.sources} | ({"notes": result["notes"]} if "notes" in result else {})


def sources_of(result: Result, index: str | None) -> list[Source]:
    """The evidence of a result, best first. Reads the index.

    Args:
        result: The result.
        index: The index of its passages.
    """
    texts = find(index, result["evidence"])
    rows = [(key, texts.get(key)) for key in result["evidence"]]
    return [
        Source(
            number=number,
            id=key,
            title=row.title if row else "",
            text=row.text if row else "",
            page=row.page if row else "",
            headings=list(row.headings) if row else [],
            file=row.file if row else "",
        )
        for number, (key, row) in enumerate(rows, start=1)
    ]


def _name(source: Source) -> str:
    """Title and place of a source."""
    return ", ".join(filter(None, [source["title"] or "(no title)", source["page"]]))


def event_text(event: Event) -> str:
    """An event as a line of the reasoning; "" for those that are not shown. Markdown."""
    if event["type"] == "asked":
        line = f"Search: {event['question']}"
    elif event["type"] == "found":
        titles = [str(hit.get("title") or hit["id"]) for hit in event["passages"]]
        line = f"Found: {'; '.join(titles)}" if titles else "Nothing found"
    elif event["type"] == "judged":
        score = "" if event["score"] is None else f" ({event['score']:.2f})"
        line = f"{event['answer'] or event['question']}: {event['verdict']}{score}"
    elif event["type"] == "step" and event["step"]["kind"] not in ("retrieve", "judge"):
        step = event["step"]
        about = f"{step['question']}: " if step["parent"] and step["question"] else ""
        line = f"{step['node']}: {about}{step['answer'] or step['verdict']}"
    else:
        return ""
    return _shown(line) + "\n"


def _shown(text: str) -> str:
    """Text of passages and models for a page that renders Markdown: one line, without links, pictures and HTML."""
    line = plain(text)
    return _MARKUP.sub(r"\\\1", line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…")
