"""Structured results of the MCP tools, whose schemas clients see."""

from __future__ import annotations

from typing_extensions import TypedDict

from hopgraph.server.answers import Source


class Found(TypedDict):
    """A search result."""

    id: str
    title: str
    text: str
    score: float
    page: str
    headings: list[str]
    metadata: dict[str, str | int | float | bool]


class FoundPassages(TypedDict):
    """Passages, best first."""

    passages: list[Found]


class OnePassage(TypedDict):
    """A passage."""

    id: str
    title: str
    text: str
    page: str
    headings: list[str]
    metadata: dict[str, str | int | float | bool]


class OneIndex(TypedDict):
    """An index."""

    name: str
    passages: int
    state: str


class Indexes(TypedDict):
    """All indexes."""

    indexes: list[OneIndex]


class OneMethod(TypedDict):
    """A method."""

    id: str
    description: str
    indexes: list[str]


class MethodList(TypedDict):
    """All methods."""

    methods: list[OneMethod]


class Answered(TypedDict):
    """An answer with its evidence."""

    answer: str
    status: str
    evidence: list[Source]
    notes: list[str]
    thread: str


class RunStep(TypedDict):
    """A step of a run."""

    node: str
    question: str
    answer: str
    verdict: str


class OneRun(TypedDict):
    """A run."""

    thread: str
    method: str
    question: str
    status: str
    answer: str
    problem: str
    steps: list[RunStep]
    evidence: list[Source]
