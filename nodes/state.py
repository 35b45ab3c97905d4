"""The typed state that graphs pass along: small, so that checkpoints are. Passages' text stays in the store."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Annotated, Any, Literal, NotRequired, Protocol

from langgraph.channels import EphemeralValue
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from inference.ledger import Call, merge_calls
from inference.revelator import Route
from nodes.context import Complexity

__all__ = [
    "Action",
    "AdaptiveInput",
    "AdaptiveState",
    "AnragInput",
    "AnragOutput",
    "AnragState",
    "Attempt",
    "Branch",
    "CompactState",
    "Complexity",
    "Dropped",
    "Entity",
    "GivenPassage",
    "HanInput",
    "HanState",
    "Hop",
    "IndexRef",
    "IrcotState",
    "IterRetGenState",
    "Judgement",
    "Node",
    "PairRef",
    "PairsRef",
    "ParState",
    "PassageRef",
    "PlanStep",
    "PrismState",
    "PruneState",
    "QAPair",
    "QuestionInput",
    "ReactState",
    "ReaderInput",
    "ReaderState",
    "Relevance",
    "Route",
    "RunError",
    "SelfAskState",
    "SentenceRef",
    "State",
    "Status",
    "Step",
    "SubQuestion",
    "TreeNode",
    "Turn",
    "merge_hops",
    "merge_relevance",
    "merge_steps",
    "merge_tree",
]

Status = Literal["answered", "unanswerable", "failed"]
StepKind = Literal["route", "decompose", "retrieve", "judge", "answer", "verify", "aggregate"]

SentenceRef = tuple[str, int]
"""A sentence: passage id, sentence index from 0. (A checkpoint may give it back as a list.)"""


class PassageRef(TypedDict):
    """A passage as the state names it."""

    id: str
    title: str
    preview: str
    """The first 120 characters at most, so that a person stepping through can see what it is."""
    score: float
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


def merge_steps(old: Sequence[Step], new: Sequence[Step]) -> list[Step]:
    """Reducer: steps keyed by id, the later one wins. Applying the same steps twice changes nothing."""
    merged = {step["id"]: step for step in old}
    merged.update((step["id"], step) for step in new)
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
    trajectory: Annotated[list[Step], merge_steps]
    ledger: Annotated[list[Call], merge_calls]


class TreeNode(TypedDict):
    """A node of PruneRAG's query decomposition tree (Sec. 3.1)."""

    id: str
    """A path: `root`, `root/0`, `root/0/1`."""
    parent: str
    depth: int
    """The root is at depth 1."""
    kind: Literal["query", "entity"]
    query: str
    """Of an entity node: the query its entities come from."""
    entities: list[str]
    searches: int
    """Searches that were reserved for it."""
    documents: list[PassageRef]
    answer: str
    confidence: float | None
    """exp of the mean log-probability of the answer's tokens (Eq. 4); None without an answer."""
    verdict: Literal["open", "accepted", "rejected", "split", "abstracted", "evidence"]
    """`open`: not looked at yet. `rejected`: answered, below the threshold. `split`: has sub-queries. `abstracted`: has
    an entity node. `evidence`: its documents go up, an answer does not."""
    decided: NotRequired[str]
    """What a person decided about its answer, `accept` or `reject`; not there when nobody was asked."""
    pruned: str
    """Why this branch goes no further; "" when it does, or when it was answered."""
    branches: list[str]
    """Sub-queries or entities that the model proposed."""
    result: str | None
    """What goes up in backtracing (Sec. 3.3); None until then."""


def merge_tree(old: Sequence[TreeNode], new: Sequence[TreeNode]) -> list[TreeNode]:
    """Reducer: nodes keyed by id, the later one wins."""
    merged = {node["id"]: node for node in old}
    merged.update((node["id"], node) for node in new)
    return list(merged.values())


class PruneState(State, total=False):
    """PruneRAG: the query decomposition tree."""

    tree: Annotated[list[TreeNode], merge_tree]
    frontier: list[str]
    """Ids of the nodes of the level that is being worked on."""


class Branch(TypedDict, total=False):
    """What a task of one tree node is sent: the node, and what it has to know of its surroundings."""

    index: IndexRef | None
    given: list[str]
    question: str
    node: TreeNode
    parent_query: str
    barred: bool
    """Answering is barred: the node's answer was rejected."""
    tree: list[TreeNode]
    """The tree as it was when the task was sent, the root first."""


class Attempt(TypedDict):
    """One answer to a step of PAR-RAG's plan, and what the review made of it (Sec. 3.4)."""

    documents: list[PassageRef]
    answer: str
    cited: list[str]
    """Ids of the passages it cites: its evidence."""
    uncited: bool
    """It cites none of them: all that were retrieved stand in as its evidence."""
    accuracy: float | None
    """A (Eq. 7), judged by the model, 0..1."""
    attribution: str
    """`contradictory`, `extrapolatory` or `attributable`; "" when it was not reviewed."""
    credibility: float | None
    """F (Eq. 8): 0, .5 or 1."""
    confidence: float | None
    """C (Eq. 10)."""
    decided: NotRequired[str]
    """What a person decided, `accept` or `reject`, whatever the confidence; not there when nobody was asked."""


class Judgement(TypedDict):
    """What one of the two judges said of the latest answer."""

    value: float
    label: str
    problem: str
    """Why its output could not be used; the value is then the cautious one."""
    truncated: int
    """Passages that were left out of its prompt."""


class PlanStep(TypedDict):
    """A step of PAR-RAG's plan, and what came of it."""

    thought: str
    question: str
    action: Literal["Retrieve", "Answer"]
    asked: str
    """The question as it was refined with the answers before it."""
    attempts: list[Attempt]
    """The first answer, and the one after re-retrieval if there was one."""
    chosen: int
    """Which of them counts."""


class ParState(State, total=False):
    """PAR-RAG: a plan, and its steps with their reviews."""

    hops: int
    """Predicted hop count, 1..4 (Eq. 6)."""
    alpha: float
    """Weight of accuracy against credibility (Eq. 9)."""
    exemplars: list[str]
    """Ids of the exemplars that the plan was written after."""
    plan: list[PlanStep]
    current: int
    """The step that is being worked on, from 0."""
    accuracy: Judgement
    attribution: Judgement


class PrismState(State, total=False):
    """PRISM: sub-questions, the pool of candidates, and evidence sentences by iteration."""

    subquestions: list[str]
    oracle: list[SentenceRef | str] | None
    """The input's `gold`, for the oracle condition and nothing else; empty where there is no evidence to be had."""
    pool: list[PassageRef]
    iteration: int
    """Rounds of Selector and Adder begun, from 1."""
    selected: list[SentenceRef]
    """Current evidence."""
    selected_text: list[str]
    """The same in words, for a person who steps through; no node reads it."""
    before: list[SentenceRef]
    """Evidence when the current round began: the loop ends when a round changes nothing."""
    kept: list[SentenceRef]
    """All that a Selector kept, in any round."""
    added: list[SentenceRef]
    """What the latest Adder added and no later Selector has looked at."""


class PairsRef(TypedDict):
    """The knowledge base a run started on. Resuming on one that was started anew since is refused."""

    id: str
    read: int
    """Passages of the index that had been read when the run started."""
    passages: int
    """Passages of the index."""
    pairs: int


class PairRef(TypedDict):
    """A question-answer pair of the knowledge base as the state names it."""

    id: str
    """`<passage id>#<number>`."""
    passage: str
    """Id of the passage that it was read from."""
    preview: str
    """The first 120 characters at most of question and answer."""
    score: float


class SubQuestion(TypedDict):
    """A node of CompactRAG's dependency graph (Sec. 3.2.1), and what came of it."""

    number: int
    """From 1; `#1` in the text of a later one stands for its answer."""
    question: str
    """As the decomposition has it."""
    depends_on: list[int]
    """Whose answers it needs."""
    rewritten: str
    """With those answers put in: what is searched for, and what the extractor reads."""
    pairs: list[PairRef]
    """Retrieved, best first."""
    answer: str
    """The extracted span; "" when there is none."""
    answer_from: str
    """Id of the pair that it was extracted from."""
    probability: float | None
    """The extractor's, of the span."""
    wave: int
    """Sub-questions of one wave depend on none of each other and are worked on together; 0 while it waits."""


class CompactState(State, total=False):
    """CompactRAG, online: a graph of sub-questions."""

    knowledge: PairsRef
    plan: list[SubQuestion]
    wave: int
    """Waves begun."""


class ReaderInput(TypedDict):
    """What CompactRAG's reader is invoked with."""

    passage: str | GivenPassage
    """A passage id of the index, or a passage."""


class Entity(TypedDict):
    """A named entity of the passage that is read."""

    text: str
    label: str
    """spaCy's type."""


class QAPair(TypedDict):
    """A pair that the reader wrote."""

    question: str
    answer: str
    verbatim: bool
    """The answer stands in the passage word for word; False also before it was looked up."""
    coverage: bool
    """Written by the coverage repair."""


class Dropped(TypedDict):
    """A pair that the reader wrote and the check did not let through."""

    question: str
    answer: str
    cause: Literal["not verbatim", "duplicate", "empty"]


class ReaderState(State, total=False):
    """CompactRAG, offline: one passage turned into pairs (Sec. 3.1)."""

    passage: Annotated[str | GivenPassage, EphemeralValue]
    """As in the input; only the first node sees it."""
    source: PassageRef
    entities: list[Entity]
    facts: list[str]
    """Atomic facts, which the reader writes before the pairs (App. A)."""
    drafts: list[QAPair]
    """Pairs that have not been checked."""
    pairs: list[QAPair]
    """Pairs that have, and stay."""
    dropped: list[Dropped]
    uncovered: list[str]
    """Entities that no pair mentions."""
    repaired: bool
    """The coverage repair has had its turn."""


class Relevance(TypedDict):
    """What the relevance discriminator said of a passage (HANRAG, App. A.3)."""

    id: str
    title: str
    probability: float | None
    """Of "relevant"; None where only the text of the verdict was to be had."""
    relevant: bool
    problem: str
    """Why the verdict could not be read; the passage is kept then."""


class Hop(TypedDict):
    """A question answered by ANRAG (HANRAG, Alg. 1)."""

    id: str
    """`root/1`, the id of its first step in the trajectory."""
    question: str
    """A seed question, a sub-question, or the question itself."""
    retrieved: list[PassageRef]
    relevance: list[Relevance]
    """In the order of `retrieved`; empty when nothing was judged."""
    kept: list[str]
    """Ids of the passages that it was answered from."""
    flagged: bool
    """None was judged relevant, and the top one was kept."""
    answer: str
    """"" when there is none."""
    problem: str
    """Why the answer could not be read; "" when it could."""
    ending: float | None
    """Probability that the chain up to here is enough; None where nobody asked, or only the text was to be had."""
    ended: bool


def merge_hops(old: Sequence[Hop], new: Sequence[Hop]) -> list[Hop]:
    """Reducer: hops keyed by id, the later one wins."""
    merged = {hop["id"]: hop for hop in old}
    merged.update((hop["id"], hop) for hop in new)
    return list(merged.values())


def merge_relevance(old: Sequence[Relevance], new: Sequence[Relevance]) -> list[Relevance]:
    """Reducer: verdicts keyed by passage id, the later one wins."""
    merged = {row["id"]: row for row in old}
    merged.update((row["id"], row) for row in new)
    return list(merged.values())


class SelfAskState(State, total=False):
    """Self-Ask: the chain of follow-up questions."""

    at: str
    """Id of the hop that is being worked on."""
    seed: str
    """Its follow-up question."""
    candidates: list[PassageRef]
    """What was found for it."""
    chain: Annotated[list[Hop], merge_hops]


class IrcotState(State, total=False):
    """IRCoT: sentences of a chain of thought, and in `evidence` all passages that were found by them."""

    thoughts: list[str]
    concluded: bool
    """The last sentence says the answer, or no further one could be had."""


class IterRetGenState(State, total=False):
    """Iter-RetGen: what the latest iteration wrote."""

    iteration: int
    """Iterations ended."""
    draft: str
    """Reasoning and answer, which the next search goes out from; "" before the first."""


Action = Literal["search", "lookup", "finish"]
"""What ReAct's agent can do."""


class Turn(TypedDict):
    """A thought of ReAct, the action that it led to, and what was observed."""

    thought: str
    action: Action
    argument: str
    passages: list[PassageRef]
    """What a search found; empty until the next thought."""
    observation: str
    """What a lookup found, in words; "" of a search."""


class ReactState(State, total=False):
    """ReAct: thoughts, actions and observations in turn."""

    turns: list[Turn]
    page: list[PassageRef]
    """What the latest search found, and what lookups look through."""


class AnragInput(TypedDict):
    """What ANRAG is sent: one question to answer in one retrieval."""

    at: str
    """Id of the hop, `root/1`."""
    seed: str
    """The question."""
    given: list[str]
    index: IndexRef | None
    settings: dict[str, Any]


class AnragOutput(TypedDict):
    """What ANRAG gives back."""

    chain: Annotated[list[Hop], merge_hops]
    trajectory: Annotated[list[Step], merge_steps]
    ledger: Annotated[list[Call], merge_calls]


class AnragState(AnragInput, AnragOutput, total=False):
    """ANRAG, noise-resistant retrieval in one step: a subgraph of HANRAG."""

    candidates: list[PassageRef]
    judged: Annotated[list[Relevance], merge_relevance]


class HanInput(QuestionInput):
    """What HANRAG is invoked with."""

    gold_route: NotRequired[Route]
    """The path to take, for the oracle router."""


class HanState(State, total=False):
    """HANRAG: the route, and the chain of questions that ANRAG answered."""

    gold_route: Annotated[Route, EphemeralValue]
    route: Route | None
    """The path taken; None until the router has spoken."""
    subquestions: list[str]
    """Of a compound question."""
    seed: str
    """Of a complex question: what is to be answered next."""
    chain: Annotated[list[Hop], merge_hops]


class AdaptiveInput(QuestionInput):
    """What Adaptive-RAG is invoked with."""

    gold_route: NotRequired[Complexity]
    """The path to take, for the oracle classifier."""


class AdaptiveState(IrcotState, total=False):
    """Adaptive-RAG: how complex the question is, and IRCoT's state where it takes several steps."""

    gold_route: Annotated[Complexity, EphemeralValue]
    route: Complexity | None
    """The path taken; None until the router has spoken."""
