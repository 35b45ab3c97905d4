"""Bounded text fields of structured output: longer texts are truncated at a boundary and recorded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

UNKNOWN = "unknown"
"""A missing answer, wherever steps are written: in prompts, for encoders, in training data."""
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*(?=\s|$)")
_HALF_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")


@dataclass(frozen=True)
class Limited:
    """Annotation of a text field: at most `limit` characters.

    The limit is the schema's `maxLength`: a server that enforces schemas stops there, perhaps mid-word; others may
    exceed it. In both cases the text is truncated at the end of a sentence or a word, and a note is appended to the
    validation context, a list, if one is given.
    """

    limit: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_after_validator_function(self._cut, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        inner = schema["schema"] if schema["type"] == "function-after" else schema
        return {**handler(inner), "maxLength": self.limit}

    def _cut(self, text: str, info: ValidationInfo) -> str:
        shown = shorten(text, self.limit)
        if shown != text and isinstance(info.context, list):
            info.context.append(f"{info.field_name or 'text'} cut at {self.limit:,} characters")
        return shown


LongText = Annotated[str, Limited(1600)]
"""An answer: usually a phrase, a few sentences at most."""
QUESTION_LENGTH = 600
"""Maximum characters of a sub-question; the median of MultiHop-RAG's questions is 290."""
QuestionText = Annotated[str, Limited(QUESTION_LENGTH)]
"""A sub-question, a follow-up question, a step of a plan."""


def shorten(text: str, limit: int) -> str:
    """Truncate `text` to `limit` characters; a text of exactly `limit` is complete only if a sentence ends there.

    Truncates after a sentence if at least half of the characters remain, else after a word, with an ellipsis.
    """
    if len(text) < limit or (len(text) == limit and _SENTENCE_END.search(text, limit - 2)):
        return text
    head = text[:limit]
    ends = [match.end() for match in _SENTENCE_END.finditer(head) if match.end() < limit or len(text) == limit]
    if ends and ends[-1] >= limit // 2:
        return head[: ends[-1]]
    space = head.rfind(" ")
    return head[: space if space >= limit // 2 else limit - 1].rstrip() + "…"


def close_json(text: str) -> str:
    """Close truncated JSON: an open string ends where it was cut, and an incomplete list item is dropped.

    The result need not be valid JSON: the text may have been cut between a key and its value.
    """
    start = text.find("{")
    if start < 0:
        return text
    closers: list[str] = []
    commas: list[int] = []  # per open container: end of the last complete item, or -1
    in_string = escaped = False
    escape = 0  # start of the latest escape sequence
    for at in range(start, len(text)):
        character = text[at]
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
            escape = at if escaped else escape
        elif character == '"':
            in_string = True
        elif character in "{[":
            closers.append("}" if character == "{" else "]")
            commas.append(-1)
        elif character in "}]" and closers:
            closers.pop()
            commas.pop()
            if not closers:
                return text
        elif character == "," and commas:
            commas[-1] = at
    lists = [depth for depth, closer in enumerate(closers) if closer == "]" and commas[depth] >= 0]
    if lists:
        return text[: commas[lists[0]]] + "".join(reversed(closers[: lists[0] + 1]))
    if in_string:
        text = (text[:escape] if _HALF_ESCAPE.fullmatch(text, escape) else text) + '"'
    return text + "".join(reversed(closers))
