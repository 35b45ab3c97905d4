"""Model calls of nodes: fit the prompt, send it, parse the output, repair once, record the calls."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from typing import Any, Generic, TypeVar

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.chat import Message, Schema
from inference.endpoint import Endpoint
from inference.endpoints import get_endpoint
from inference.errors import PromptTooLong
from inference.json_forms import described
from inference.ledger import Call
from inference.limits import close_json
from inference.settings import Role, get_settings
from inference.structured import BadOutput, parse_output
from nodes.kit.abstention import GUESS
from nodes.kit.context import Context
from nodes.kit.deadlines import within_deadlines
from nodes.kit.events import RepliedEvent, tell
from nodes.kit.place import ledger_entry, node_name, thread_id
from nodes.kit.rendering import quoted
from nodes.kit.request import RawReply, Request, send
from nodes.kit.steps import Work
from nodes.kit.streaming import ShownAnswer
from prompts.loader import load_prompt
from prompts.parsing import Prompt

Output = TypeVar("Output", bound=BaseModel)
_QUOTED_REPLY = 2000
_REPAIR = "shared/repair"
_ANSWERS = ("answer", "argument", "text")
"""Fields that an answer is given in: of answers, of an agent's actions, of reasoning that ends."""


@dataclass(frozen=True, kw_only=True)
class Asked(Work, Generic[Output]):
    """Result of a model call. `truncated` counts the items left out of the prompt."""

    value: Output | None
    """None if the output can't be used, even after the repair."""
    logprobs: list[float] = field(default_factory=list)
    """Log-probabilities of the tokens that spell the scored field; empty if not requested or not returned."""
    each: list[list[float]] = field(default_factory=list)
    """The same of each item's scored field, where the path has `EACH`."""
    probability: float | None = None
    """Probability that the scored field, a boolean, is true; None if not requested or not available."""


@dataclass(frozen=True)
class Items:
    """Blocks of text for one variable of a prompt; the last ones are left out if the prompt does not fit."""

    variable: str
    blocks: Sequence[str]
    """Best first."""
    places: Sequence[int] = ()
    """Position of each in the prompt, lowest first; default: the order given. A prompt that grows from call to
    call has the older blocks first, so that a server finds its beginning in the prefix cache."""

    def shown(self, count: int) -> dict[str, str]:
        """The variable's value with the first `count` blocks."""
        order = sorted(range(count), key=self.places.__getitem__) if self.places else range(count)
        return {self.variable: "\n".join(self.blocks[i] for i in order) or "(none)"} if self.variable else {}


NO_ITEMS = Items("", ())


@dataclass(frozen=True)
class _Question(Generic[Output]):
    """A model call of a node; the fields are `ask_model`'s arguments."""

    prompt: str
    output: type[Output]
    values: Mapping[str, str]
    at: str
    items: Items
    role: Role
    score: tuple[str, ...]
    binary: bool
    read: Callable[[str], Output] | None
    node: str


async def ask_model(
    runtime: Runtime[Any],
    prompt: str,
    output: type[Output],
    values: Mapping[str, str],
    *,
    at: str,
    items: Items = NO_ITEMS,
    role: Role = "llm",
    score: tuple[str, ...] = (),
    binary: bool = False,
    read: Callable[[str], Output] | None = None,
    node: str = "",
) -> Asked[Output]:
    """Ask the model for an `output`.

    Args:
        runtime: The node's runtime.
        prompt: Name of the prompt.
        output: Schema of the reply.
        values: Values of the prompt's variables.
        at: Id of the trajectory step that the call belongs to.
        items: Blocks of text for one more variable, as many of them as fit the model's context.
        role: The model to call: the generator's for answers, the synthesizer's for those that conclude from answers to
            sub-questions, attribution's to check them against passages.
        score: Path of the output's field to return token log-probabilities of; `EACH` in it stands for every item of
            an array.
        binary: The scored field is a boolean, return the probability that it is true.
        read: Reads the output from plain text, for models trained to reply in their own format: no JSON is
            requested, and nothing is repaired. It raises `BadOutput`.
        node: Name for the ledger, the request id and the schema; default: the running node's.

    Raises:
        EndpointError: The endpoint can't be used; the run can be resumed.
        DeadlineError: The node's or the run's time is over; the run can be resumed.
        PromptTooLong: The prompt does not fit even without items.
        InputError: The prompt is malformed.
    """
    question = _Question(prompt, output, values, at, items, role, score, binary, read, node or node_name())
    async with within_deadlines(runtime):
        asked = await _ask_and_repair(runtime.context, question)
    for number, call in enumerate(asked.calls, start=1):
        event = RepliedEvent(
            type="replied",
            step=at,
            node=question.node,
            call=call["id"],
            prompt=call["prompt"],
            prompt_tokens=call["prompt_tokens"],
            completion_tokens=call["completion_tokens"],
            seconds=call["seconds"],
            problem=asked.problem if number == len(asked.calls) else "a repair was requested",
        )
        tell(runtime, event)
    return asked


async def _ask_and_repair(context: Context, question: _Question[Output]) -> Asked[Output]:
    """As `ask_model`, without deadlines."""
    text = await asyncio.to_thread(load_prompt, question.prompt, context.prompt_override(question.prompt))
    endpoint = await open_endpoint(model_of(context, question.role), question.role)
    guess = {"no_answer": GUESS} if context.abstain == "off" else {}
    values = {**guess, **question.values}
    messages, truncated = await _fit(endpoint, text, values, question.items, context.max_tokens)
    call = ledger_entry(
        f"{thread_id()}.{context.method}.{question.node}.{hashlib.sha256(question.at.encode()).hexdigest()[:8]}",
        "model",
        node=question.node,
        step=question.at,
        prompt=question.prompt,
        prompt_hash=text.hash,
        model=await endpoint.model_name(),
    )
    read, output, score = question.read, question.output, question.score
    schema = None if read else Schema(f"{context.method}__{question.node}", _schema(output, values))
    cut: list[str] = []
    parse = read or (lambda text: parse_output(text, output, cut))
    shown = ShownAnswer(question.node) if question.role in ("generator", "synthesizer") and schema is not None else None
    request = Request(endpoint, messages, call, schema, context, score, question.binary, shown)
    raw = await send(request)
    value, problem = _read(raw, parse, context.max_tokens)
    calls = [raw["call"]]
    if value is None and schema is not None:
        cut.clear()
        fixed = await _repair(request, raw, problem)
        if fixed is not None:
            raw = fixed
            calls.append(raw["call"])
            value, problem = _read(raw, parse, context.max_tokens)
    if value is None and schema is not None and not score:
        value = _unfinished(raw, parse)
        cut.append(f"the reply was cut at max_tokens={context.max_tokens}")
    usable = value is not None
    return Asked(
        at=question.at,
        node=question.node,
        calls=calls,
        truncated=truncated,
        problem="" if usable else problem,
        cut="; ".join(dict.fromkeys(cut)) if usable else "",
        value=value,
        logprobs=raw["logprobs"] if usable else [],
        each=raw.get("each", []) if usable else [],
        probability=raw["probability"] if usable else None,
    )


@lru_cache(maxsize=64)
def output_schema(output: type[BaseModel]) -> Mapping[str, Any]:
    """JSON schema of a model output: no titles or descriptions, no further keys allowed."""

    def clean(node: Any) -> Any:
        if isinstance(node, list):
            return [clean(item) for item in node]
        if not isinstance(node, dict):
            return node
        kept = {
            key: {name: clean(value) for name, value in item.items()} if key in ("properties", "$defs") else clean(item)
            for key, item in node.items()
            if key not in ("title", "description", "default")
        }
        return kept | {"additionalProperties": False} if kept.get("type") == "object" else kept

    schema: Mapping[str, Any] = clean(output.model_json_schema())
    return schema


def _schema(output: type[BaseModel], values: Mapping[str, str]) -> Mapping[str, Any]:
    """The JSON schema of an output; where abstaining is off, the field that an answer is given in is not empty."""
    schema = output_schema(output)
    if values.get("no_answer") != GUESS:
        return schema
    schema = deepcopy(dict(schema))
    for part in (schema, *schema.get("$defs", {}).values()):
        for name in _ANSWERS:
            if (answer := part.get("properties", {}).get(name, {})).get("type") == "string":
                answer["minLength"] = 1
    return schema


def model_of(context: Context, role: Role) -> str | None:
    """The model that the context names for a role; None: the one in the settings."""
    if role == "llm":
        return context.model
    settings = get_settings()
    if role == "synthesizer" and not (settings.synthesizer_url or settings.synthesizer_model):
        role = "generator"
    if role == "generator" and context.generator_model:
        return context.generator_model
    named = settings.server(role).own or getattr(settings, f"{role}_model")
    return None if named else context.model


async def open_endpoint(model: str | None, role: Role = "llm") -> Endpoint:
    """The endpoint of a role. Its client is imported, and the embedded server started, in a thread: both block."""
    settings = get_settings()
    for module in ("aiohttp", "tenacity"):
        if module not in sys.modules:
            await asyncio.to_thread(import_module, module)
    embedded = None
    if settings.server(role).url is None:
        from inference.embedded import ensure_server

        embedded = (await asyncio.to_thread(ensure_server, settings.embedded_model, role)).url
    return get_endpoint(model, role, embedded=embedded)


async def _fit(
    endpoint: Endpoint, prompt: Prompt, values: Mapping[str, str], items: Items, max_tokens: int
) -> tuple[list[Message], int]:
    """The messages with as many items as fit (by bisection), and how many were left out."""

    def render(count: int) -> list[Message]:
        return prompt.render({**values, **items.shown(count)})

    fitting, too_many = 0, len(items.blocks) + 1
    probe = len(items.blocks)
    while fitting < probe < too_many:
        if await endpoint.fits(render(probe), max_tokens):
            fitting = probe
        else:
            too_many = probe
        probe = (fitting + too_many) // 2
    if fitting == 0 and not await endpoint.fits(render(0), max_tokens):
        size = sum(len(message.content) for message in render(0))
        raise PromptTooLong(
            f"the prompt {prompt.name} has {size:,} characters before any passage and does not fit the model's context "
            f"of {await endpoint.context()} tokens, {max_tokens} of them kept for the reply",
            hint="shorten the question, lower max_tokens, or use a model with a longer context",
            permanent=True,
        )
    return render(fitting), len(items.blocks) - fitting


def _read(raw: RawReply, parse: Callable[[str], Output], max_tokens: int) -> tuple[Output | None, str]:
    try:
        return parse(raw["text"]), ""
    except BadOutput as error:
        cut = f"; it was cut at the length limit (max_tokens={max_tokens})" if raw["finish_reason"] == "length" else ""
        return None, f"{error}{cut}"


def _unfinished(raw: RawReply, parse: Callable[[str], Output]) -> Output | None:
    """The output of a reply that was cut at the length limit; None if a field is missing."""
    if raw["finish_reason"] != "length":
        return None
    try:
        return parse(close_json(raw["text"]))
    except BadOutput:
        return None


async def _repair(request: Request, raw: RawReply, problem: str) -> RawReply | None:
    """Request a repair, naming the problem. None if that does not fit the model's context."""
    text = await asyncio.to_thread(load_prompt, _REPAIR)
    # Chat templates require alternating user and assistant messages, so an empty reply is replaced by a placeholder.
    reply = raw["text"].strip()[:_QUOTED_REPLY] or "(empty)"
    messages = [*request.messages, Message("assistant", reply), *text.render({"problem": quoted(problem[:500])})]
    if request.schema and raw["finish_reason"] != "length" and request.endpoint.json_form == "json_schema":
        # The server does not enforce the schema here: put it in the prompt.
        messages = described(messages, request.schema.schema)
    if not await request.endpoint.fits(messages, request.context.max_tokens):
        return None
    call: Call = {
        **request.call,
        "id": f"{request.call['id']}r",
        "prompt": _REPAIR,
        "prompt_hash": text.hash,
        "repair": True,
    }
    try:
        return await send(replace(request, messages=messages, call=call))
    except PromptTooLong:
        return None
