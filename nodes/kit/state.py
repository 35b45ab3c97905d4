"""The state that every method has: small, so that checkpoints are. Passages' text stays in the store."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, Protocol, TypeVar

from langgraph.channels import EphemeralValue
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from inference.ledger import Call

__all__ = [
    "GivenPassage",
    "Hit",
    "IndexRef",
    "Node",
    "PassageRef",
    "QuestionInput",
    "RunError",
    "SentenceRef",
    "State",
    "Status",
    "Step",
    "StepKind",
    "as_refs",
    "merge_by_id",
]

Row = TypeVar("Row", bound=Mapping[str, Any])
Status = Literal["answered", "unanswerable", "failed"]


StepKind = Literal["route", "decompose", "retrieve", "judge", "answer", "verify", "aggregate"]


SentenceRef = tuple[str, int]
"""A sentence: passage id, sentence index from 0. (A checkpoint may give it back as a list.)"""


class Hit(TypedDict):
    """What a search found, as the state names it: its text stays in the store."""

    id: str
    preview: str
    """The first 120 characters at most, so that a person stepping through can see what it is."""
    score: float


class PassageRef(Hit):
    """A passage as the state names it."""

    title: str
    found_by: str
    """Which half of the store found it: `dense`, `sparse`, `both`; or `given`."""


class Step(TypedDict):
    """One step of a run. Terminal output, traces and reports are views of these and of nothing else."""

    id: str
    """A path, such as `root/selector/2`."""
    parent: str
    """The step it belongs under; `root` is the question itself."""
    kind: StepKind
    node: str
    question: str
    """What was asked in this step."""
    answer: str
    """What came out, in words."""
    verdict: str
    score: float | None
    evidence: list[str]
    """Passage ids."""
    sentences: list[SentenceRef]
    """Sentence evidence, where a method works with sentences."""
    calls: int
    searches: int
    truncated: int
    """Passages left out because the prompt did not fit the model's context."""
    fallback: str
    """Why the model's output could not be used and what was done instead; "" when all went well."""


class RunError(TypedDict):
    """Why a run failed."""

    kind: str
    message: str
    node: str
    hint: NotRequired[str]
    """What to do about it, where that is known."""
    permanent: NotRequired[bool]
    """Resuming fails in the same way until something is changed; see `inference.errors.EndpointError`."""


class IndexRef(TypedDict):
    """The index a run started on. Resuming on another one is refused."""

    name: str
    hash: str


class GivenPassage(TypedDict):
    """A passage handed over with the question instead of being searched for."""

    title: str
    text: str
    sentences: NotRequired[list[str]]


class Node(Protocol):
    """A node of a graph: reads the state, returns what it changes of it.

    LangGraph gives a node the keys of the type that its first parameter is annotated with: a node that serves several
    methods and hands the state on takes `Any`, which is all of the graph's state.
    """

    def __call__(self, state: Any, runtime: Runtime[Any]) -> Awaitable[dict[str, Any]]:
        """Run the node."""


def merge_by_id(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Reducer: rows keyed by their `id`, the later one wins. Applying the same rows twice changes nothing."""
    merged = {row["id"]: row for row in old}
    merged.update((row["id"], row) for row in new)
    return list(merged.values())


class QuestionInput(TypedDict):
    """What a graph is invoked with."""

    question: str
    contexts: NotRequired[list[str | GivenPassage]]
    """Answer from these passages, not from a search: ids of the index, or passages."""
    gold: NotRequired[list[SentenceRef | str]]
    """Gold evidence for the oracle conditions: passage ids or sentences. Methods never see it otherwise."""


class State(TypedDict, total=False):
    """What every method's state has."""

    question: str
    contexts: Annotated[list[str | GivenPassage], EphemeralValue]
    """As in the input; only the first node sees them."""
    gold: Annotated[list[SentenceRef | str], EphemeralValue]
    settings: dict[str, Any]
    """Those of the context that were set; what was not is at its default."""
    given: list[str]
    """Ids of the passages given with the question; when there are any, nothing else is searched."""
    index: IndexRef | None
    answer: str
    """"" when the question can't be answered."""
    status: Status
    error: RunError | None
    evidence: list[PassageRef]
    """What the answer rests on, best first."""
    sentences: list[SentenceRef]
    """The sentences it rests on, where a method works with sentences."""
    trajectory: Annotated[list[Step], merge_by_id]
    ledger: Annotated[list[Call], merge_by_id]


def as_refs(rows: Iterable[Any]) -> list[SentenceRef]:
    """Sentence references as tuples: a checkpoint or a person's edit may have made lists of them."""
    return [(str(key), int(index)) for key, index in rows]
