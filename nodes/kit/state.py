"""The state common to all methods. It is small to keep checkpoints small; the text of passages stays in the store."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, Protocol, TypeVar

from langgraph.channels import EphemeralValue
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from inference.ledger import Call

Row = TypeVar("Row", bound=Mapping[str, Any])
Status = Literal["answered", "unanswerable", "failed"]


StepKind = Literal["route", "decompose", "retrieve", "judge", "answer", "verify", "aggregate"]


SentenceRef = tuple[str, int]
"""A sentence: passage id, sentence index from 0. (A checkpoint may restore it as a list.)"""


class Hit(TypedDict):
    """A search result in the state, without its text."""

    id: str
    preview: str
    """At most the first 120 characters, to recognise it when stepping through a run."""
    score: float


class PassageRef(Hit):
    """A passage in the state."""

    title: str
    found_by: str
    """Which retriever found it: `dense`, `sparse`, `both`; `named in passage 2` (of this search); or `given`."""
    page: NotRequired[str]
    """Where in its document it is, such as `page 3`; absent if unknown."""


class Step(TypedDict):
    """One step of a run. Terminal output, traces and reports show nothing else."""

    id: str
    """A path, such as `root/selector/2`."""
    parent: str
    """Id of the parent step; `root` is the question itself."""
    kind: StepKind
    node: str
    question: str
    """Question or query of this step."""
    answer: str
    """Its result as text."""
    verdict: str
    score: float | None
    evidence: list[str]
    """Passage ids."""
    sentences: list[SentenceRef]
    """Evidence sentences, for methods that work with sentences."""
    calls: int
    searches: int
    truncated: int
    """Passages left out because the prompt did not fit the model's context."""
    fallback: str
    """Why the model's output could not be used and the fallback; "" if there was no problem."""


class RunError(TypedDict):
    """Why a run failed."""

    kind: str
    message: str
    node: str
    hint: NotRequired[str]
    """What to do about it, if known."""
    permanent: NotRequired[bool]
    """Resuming fails in the same way until something is changed; see `inference.errors.EndpointError`."""


class IndexRef(TypedDict):
    """The index a run started on. Resuming on another index is refused."""

    name: str
    hash: str


class GivenPassage(TypedDict):
    """A passage given with the question; replaces the search."""

    title: str
    text: str
    sentences: NotRequired[list[str]]


class Node(Protocol):
    """A node of a graph: reads the state and returns an update.

    LangGraph gives a node the keys of the type that its first parameter is annotated with: a node that serves several
    methods and hands the state on takes `Any`, which is all of the graph's state.
    """

    def __call__(self, state: Any, runtime: Runtime[Any]) -> Awaitable[dict[str, Any]]:
        """Run the node."""


def merge_by_id(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Reducer: merges rows by `id`; the later one wins. Idempotent."""
    merged = {row["id"]: row for row in old}
    merged.update((row["id"], row) for row in new)
    return list(merged.values())


class QuestionInput(TypedDict):
    """Input of a graph."""

    question: str
    contexts: NotRequired[list[str | GivenPassage]]
    """Answer from these passages, not from a search: ids of the index, or passages."""
    gold: NotRequired[list[SentenceRef | str]]
    """Gold evidence for the oracle conditions: passage ids or sentences. Methods never see it otherwise."""


class State(TypedDict, total=False):
    """State that every method has."""

    question: str
    contexts: Annotated[list[str | GivenPassage], EphemeralValue]
    """From the input; only the first node sees them."""
    gold: Annotated[list[SentenceRef | str], EphemeralValue]
    settings: dict[str, Any]
    """Fields of the context that were set; the others have their defaults."""
    given: list[str]
    """Ids of the passages given with the question; if there are any, nothing else is searched."""
    index: IndexRef | None
    answer: str
    """"" when the question can't be answered."""
    status: Status
    abstention: str
    """The model's words where the status is `unanswerable`: "Unknown" may be the right answer, which scoring sees."""
    error: RunError | None
    evidence: list[PassageRef]
    """Evidence for the answer, best first."""
    sentences: list[SentenceRef]
    """Evidence sentences, for methods that work with sentences."""
    trajectory: Annotated[list[Step], merge_by_id]
    ledger: Annotated[list[Call], merge_by_id]


def as_refs(rows: Iterable[Any]) -> list[SentenceRef]:
    """Sentence references as tuples: checkpoints and manual edits may turn them into lists."""
    return [(str(key), int(index)) for key, index in rows]
