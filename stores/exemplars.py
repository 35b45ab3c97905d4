"""Exemplars: worked plans for the planner's prompt (PAR-RAG, Sec. 3.3, 4.5.2).

`exemplars.md` has them and describes the format.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal, cast

import numpy as np

from inference.encoders.configured import get_encoder
from inference.encoders.vectors import Vectors
from inference.errors import InputError
from inference.settings import get_settings

Action = Literal["Retrieve", "Answer"]

# Questions of an evaluation start together; one of them encodes the exemplars for all.
_encoding = threading.Lock()


@dataclass(frozen=True, slots=True)
class ExemplarStep:
    """One step of an exemplar's plan."""

    thought: str
    question: str
    action: Action
    """Retrieve looks up a fact; Answer reasons over the previous steps."""


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A question and the plan that answers it."""

    id: str
    source: str
    """Source of the question, such as `musique-train`; "" if not given."""
    hops: int
    """1 to 4."""
    question: str
    steps: tuple[ExemplarStep, ...]


def choose_exemplars(
    question: str, how: Literal["complexity", "similarity", "none"], *, hops: int, count: int = 1
) -> list[Exemplar]:
    """Select exemplars for a question's plan, best first (Fig. 4).

    Args:
        question: The question to be planned.
        how: `complexity`: those with the given hop count (or the nearest one in the file), most similar first;
            `similarity`: the most similar of all; `none`: no exemplar.
        hops: The question's hop count, given or predicted.
        count: Maximum number of exemplars.

    Raises:
        InputError: The exemplar file can't be read, or is malformed.
        EndpointError: The encoder is an endpoint, and failed.
    """
    if how == "none" or count < 1:
        return []
    exemplars = load_exemplars()
    rows = list(range(len(exemplars)))
    if how == "complexity":
        nearest = min({exemplar.hops for exemplar in exemplars}, key=lambda there: (abs(there - hops), there))
        rows = [row for row in rows if exemplars[row].hops == nearest]
    if len(rows) == 1:
        return [exemplars[rows[0]]]
    encoder = get_encoder()
    with _encoding:
        vectors = _vectors(encoder.id, tuple(exemplar.question for exemplar in exemplars))
    scores = vectors[rows] @ encoder.encode_queries([question])[0]
    return [exemplars[rows[i]] for i in np.argsort(-scores, kind="stable")[:count]]


def load_exemplars() -> tuple[Exemplar, ...]:
    """Exemplars of the file in `HOPGRAPH_EXEMPLARS`, else the bundled ones, in file order.

    Raises:
        InputError: The file can't be read, or is malformed.
    """
    path = get_settings().exemplars
    if path is None:
        return _bundled()
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InputError(f"{path}: can't be read ({reason})", hint="set or unset HOPGRAPH_EXEMPLARS") from error
    return tuple(read_exemplars(text, str(path)))


@lru_cache(maxsize=1)
def _bundled() -> tuple[Exemplar, ...]:
    source = files("stores").joinpath("exemplars.md")
    return tuple(read_exemplars(source.read_text("utf-8"), str(source)))


@lru_cache(maxsize=16)
def _vectors(encoder: str, questions: tuple[str, ...]) -> Vectors:
    """Vectors of exemplar questions, cached by encoder and questions."""
    return get_encoder().encode_queries(questions)


_SECTION = re.compile(r"#\s+([1-4]) hops?\s*")
_HEADING = re.compile(r"##\s+(\S.*?)(?:\s+\(([^()]*)\))?\s*")
_THOUGHT = re.compile(r"(\d+)[.)]\s+(\S.*)")
_ACTION = re.compile(r"\s+(\w+):\s*(.*)")


@dataclass
class _Draft:
    """An exemplar being parsed."""

    line: int
    id: str
    source: str
    hops: int
    question: str = ""
    thought: str = ""
    steps: tuple[ExemplarStep, ...] = ()


def read_exemplars(text: str, name: str) -> list[Exemplar]:
    """Parse exemplars, in file order. Text before the first `# N hops` is ignored.

    Args:
        text: The file's text.
        name: Name of the file in messages.

    Raises:
        InputError: The text is malformed; the message names file, line and field.
    """
    result: list[Exemplar] = []
    seen: dict[str, int] = {}
    hops, draft = 0, None
    lines = text.lstrip("\ufeff").splitlines()
    for number, line in enumerate(lines, start=1):
        where = f"{name}, line {number}"
        if section := _SECTION.fullmatch(line):
            result += _finished(draft, name)
            hops, draft = int(section[1]), None
        elif not hops or not line.strip():
            continue
        elif heading := _HEADING.fullmatch(line):
            result += _finished(draft, name)
            draft = _Draft(number, heading[1], heading[2] or "", hops)
            if draft.id in seen:
                raise InputError(f"{where}: id '{draft.id}' is taken by line {seen[draft.id]}", hint="ids must differ")
            seen[draft.id] = number
        elif draft is None:
            hint = "a section is '# 1 hop' to '# 4 hops', an exemplar starts with '## id (source)'"
            raise InputError(f"{where}: '{line.strip()[:60]}' belongs to no exemplar", hint=hint)
        else:
            _read_line(draft, line, where)
    result += _finished(draft, name)
    if not result:
        raise InputError(f"{name}: holds no exemplar", hint="sections are '# 1 hop' to '# 4 hops'")
    return result


def _read_line(draft: _Draft, line: str, where: str) -> None:
    """Parse one line of an exemplar's body."""
    if line.startswith(">"):
        if draft.question:
            raise InputError(f"{where}: field 'question' is given twice", hint="write it on one line")
        draft.question = line[1:].strip()
        if not draft.question:
            raise InputError(f"{where}: field 'question' is empty", hint="write '> the question'")
    elif thought := _THOUGHT.fullmatch(line.rstrip()):
        if draft.thought:
            raise InputError(f"{where}: field 'action' is missing in the step before", hint=_ACTION_HINT)
        if int(thought[1]) != len(draft.steps) + 1:
            hint = "steps are numbered 1, 2, 3, ..."
            raise InputError(f"{where}: step {len(draft.steps) + 1} is expected, not {thought[1]}", hint=hint)
        draft.thought = thought[2]
    elif action := _ACTION.fullmatch(line.rstrip()):
        if action[1] not in ("Retrieve", "Answer"):
            raise InputError(f"{where}: field 'action' is '{action[1]}', not Retrieve or Answer", hint=_ACTION_HINT)
        if not draft.thought:
            raise InputError(f"{where}: field 'thought' is missing", hint="a step starts with '1. why it is needed'")
        if not action[2]:
            raise InputError(f"{where}: field 'question' of the step is empty", hint=_ACTION_HINT)
        draft.steps += (ExemplarStep(draft.thought, action[2], cast(Action, action[1])),)
        draft.thought = ""
    else:
        hint = "an exemplar holds '> question' and numbered steps, each with 'Retrieve: ...' or 'Answer: ...' below it"
        raise InputError(f"{where}: '{line.strip()[:60]}' is no question, thought or action", hint=hint)


_ACTION_HINT = "below a thought, indented: 'Retrieve: question' or 'Answer: question'"


def _finished(draft: _Draft | None, name: str) -> Sequence[Exemplar]:
    if draft is None:
        return []
    where = f"{name}, line {draft.line}: exemplar '{draft.id}'"
    if not draft.question:
        raise InputError(f"{where} has no field 'question'", hint="write '> the question' below its heading")
    if draft.thought:
        raise InputError(f"{where}: field 'action' is missing in its last step", hint=_ACTION_HINT)
    if not draft.steps:
        raise InputError(f"{where} has no steps", hint="a step is '1. why it is needed' and an action below it")
    return [Exemplar(draft.id, draft.source, draft.hops, draft.question, draft.steps)]
