"""How a node calls the model: fit the prompt, ask, check the output, repair once, account for everything.

Every request is a LangGraph task of its own, so its reply is committed the moment it arrives: after a crash a resumed
node gets the finished replies from the checkpoint and repeats only what was in flight.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any, Generic, TypeVar

from langgraph.config import get_config
from langgraph.func import task
from langgraph.runtime import Runtime
from pydantic import BaseModel
from typing_extensions import TypedDict

from inference.chat import Message, Reply, Schema
from inference.endpoint import Endpoint, ResponseCache, get_endpoint
from inference.errors import EndpointError, PromptTooLong
from inference.json_forms import described
from inference.ledger import Call
from inference.limits import close_json
from inference.settings import Role, get_settings
from inference.structured import BadOutput, field_logprobs, parse_output, true_probability
from nodes.kit.context import Context
from nodes.kit.deadlines import within_deadlines
from nodes.kit.events import RepliedEvent, tell
from nodes.kit.rendering import quoted
from nodes.kit.streaming import ShownAnswer
from nodes.kit.tracers import traced_failure
from prompts.loader import Prompt, load_prompt

__all__ = [
    "MODEL_CALL",
    "Asked",
    "ask_model",
    "open_endpoint",
    "output_schema",
    "pack_prompt",
    "place",
    "thread_id",
    "unpack_prompt",
]

Output = TypeVar("Output", bound=BaseModel)
MODEL_CALL = "model call"
"""Name of the task that makes a request."""
_ASCII_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
_QUOTED_REPLY = 2000
_LONGEST_PROMPT = 50_000_000
"""Bytes."""
_REPAIR = "shared/repair"
ALTERNATIVES = 10
"""Tokens that are asked for at each place where the probability of one word against another is wanted."""


@dataclass(frozen=True)
class Asked(Generic[Output]):
    """What came of asking the model."""

    value: Output | None
    """None when the output could not be used, not even after the repair."""
    problem: str
    """Why `value` is None, in words; else ""."""
    calls: list[Call]
    truncated: int
    """Items that were left out of the prompt because it did not fit the model's context."""
    logprobs: list[float]
    """Log-probabilities of the tokens that spell the scored field; empty when not asked for or not given."""
    probability: float | None
    """Probability that the scored field, a boolean, is true; None when not asked for or not to be had."""
    cut: str = ""
    """Which texts of `value` were cut because they were too long; else ""."""


class _Raw(TypedDict):
    """Result of a request task; it goes into the checkpoint."""

    text: str
    finish_reason: str
    call: Call
    logprobs: list[float]
    prompt: bytes
    """What was asked, for looking at the run later: see `unpack_prompt`."""
    probability: float | None


@dataclass(frozen=True)
class _Request:
    """Argument of a request task."""

    endpoint: Endpoint
    messages: list[Message]
    call: Call
    """All but what the reply adds."""
    schema: Schema | None
    context: Context
    score: tuple[str, ...]
    binary: bool
    shown: ShownAnswer | None
    """Streams the answer to who listens; None: the reply has none."""


async def ask_model(
    runtime: Runtime[Any],
    *,
    node: str,
    step: str,
    prompt: str,
    values: Mapping[str, str],
    output: type[Output],
    items: Sequence[str] = (),
    items_as: str = "",
    places: Sequence[int] = (),
    role: Role = "llm",
    score: tuple[str, ...] = (),
    binary: bool = False,
    read: Callable[[str], Output] | None = None,
) -> Asked[Output]:
    """Ask the model for an `output`.

    Args:
        runtime: The node's runtime.
        node: The node's name, for the ledger, the request id and the schema's name.
        step: Id of the trajectory step that the call belongs to.
        prompt: Name of the prompt.
        values: Values of its variables.
        output: What the reply must be.
        items: Blocks of text, best first, that fill the variable `items_as`; the last ones are left out if the prompt
            does not fit the model's context.
        items_as: The variable for `items`.
        places: Where each of them stands in the prompt, lowest first; default: as they come. A prompt that grows from
            call to call has the older items first, so that a server finds its beginning in the prefix cache.
        role: Whose model is asked: the generator's answers, attribution's says what passages bear out.
        score: Path of a field of the output whose token log-probabilities are wanted.
        binary: The scored field is a boolean, and the probability that it is true is wanted.
        read: Reads the output from plain text, for models that were trained to reply with a text of their own: no JSON
            is asked for, and nothing is repaired. It raises `BadOutput`.

    Raises:
        EndpointError: The endpoint can't be used; the run can be resumed.
        DeadlineError: The node's or the run's time is over; the run can be resumed.
        PromptTooLong: The prompt does not fit even without items.
        InputError: The prompt is malformed.
    """
    async with within_deadlines(runtime):
        asked = await _ask_and_repair(
            runtime.context, node, step, prompt, values, output, items, items_as, places, role, score, binary, read
        )
    for number, call in enumerate(asked.calls, start=1):
        event = RepliedEvent(
            type="replied",
            step=step,
            node=node,
            call=call["id"],
            prompt=call["prompt"],
            prompt_tokens=call["prompt_tokens"],
            completion_tokens=call["completion_tokens"],
            seconds=call["seconds"],
            problem=asked.problem if number == len(asked.calls) else "it was asked to mend its reply",
        )
        tell(runtime, event)
    return asked


async def _ask_and_repair(
    context: Context,
    node: str,
    step: str,
    prompt: str,
    values: Mapping[str, str],
    output: type[Output],
    items: Sequence[str],
    items_as: str,
    places: Sequence[int],
    role: Role,
    score: tuple[str, ...],
    binary: bool,
    read: Callable[[str], Output] | None,
) -> Asked[Output]:
    """As `ask_model`, without deadlines."""
    text = await asyncio.to_thread(load_prompt, prompt, context.prompt_override(prompt))
    endpoint = await open_endpoint(_model_of(context, role), role)
    messages, truncated = await _fit(endpoint, text, values, items, items_as, places, context.max_tokens)
    call = Call(
        id=f"{thread_id()}.{context.method}.{node}.{hashlib.sha256(step.encode()).hexdigest()[:8]}",
        kind="model",
        node=node,
        step=step,
        prompt=prompt,
        prompt_hash=text.hash,
        model=await endpoint.model_name(),
        prompt_tokens=0,
        completion_tokens=0,
        cached_tokens=0,
        started=0.0,
        seconds=0.0,
        finish_reason="",
        cached=False,
        repair=False,
        found=[],
        **place(),
    )
    schema = None if read else Schema(f"{context.method}__{node}", output_schema(output))
    cut: list[str] = []
    parse = read or (lambda text: parse_output(text, output, cut))
    shown = ShownAnswer(node) if role == "generator" and schema is not None else None
    request = _Request(endpoint, messages, call, schema, context, score, binary, shown)
    raw = await _ask(request)
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
    if value is None:
        return Asked(None, problem, calls, truncated, [], None)
    noted = "; ".join(dict.fromkeys(cut))
    return Asked(value, "", calls, truncated, raw["logprobs"], raw["probability"], noted)


class Place(TypedDict):
    """Where the running node is, as the ledger records it."""

    superstep: int
    task: str
    outer: list[tuple[str, str]]


def place() -> Place:
    """Where the running node is: its superstep, a name that tells its tasks apart, and the graphs around it."""
    config = get_config()
    metadata = config.get("metadata", {})
    *outer, _ = str(metadata.get("langgraph_checkpoint_ns", "")).split("|")
    # A graph's checkpoint is the same for all that runs in one of its supersteps, and another in the next.
    checkpoints = config.get("configurable", {}).get("checkpoint_map", {})
    return Place(
        superstep=int(metadata.get("langgraph_step", 0)),
        task="/".join(map(str, metadata.get("langgraph_path", ()))),
        outer=[(str(checkpoints.get("|".join(outer[:depth]), "")), task) for depth, task in enumerate(outer)],
    )


def thread_id() -> str:
    """The running thread's id, in ASCII; `local` when the run is not checkpointed."""
    raw = str(get_config().get("configurable", {}).get("thread_id") or "local")
    return raw if _ASCII_ID.fullmatch(raw) else hashlib.sha256(raw.encode()).hexdigest()[:32]


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


def _model_of(context: Context, role: Role) -> str | None:
    """The model that the call names for a role; None: the one that the settings name."""
    if role == "llm":
        return context.model
    if role == "generator" and context.generator_model:
        return context.generator_model
    settings = get_settings()
    named = settings.server(role).own or getattr(settings, f"{role}_model")
    return None if named else context.model


async def open_endpoint(model: str | None, role: Role = "llm") -> Endpoint:
    """The endpoint of a role. Imports of its client and the embedded server are left to a thread: they block."""
    settings = get_settings()
    for module in ("aiohttp", "tenacity"):
        if module not in sys.modules:
            await asyncio.to_thread(import_module, module)
    embedded = None
    if settings.server(role).url is None:
        from inference.embedded import ensure_server

        embedded = (await asyncio.to_thread(ensure_server, settings.embedded_model)).url
    return get_endpoint(model, role, embedded=embedded)


async def _fit(
    endpoint: Endpoint,
    prompt: Prompt,
    values: Mapping[str, str],
    items: Sequence[str],
    items_as: str,
    places: Sequence[int],
    max_tokens: int,
) -> tuple[list[Message], int]:
    """The messages with as many items as fit (by bisection), and how many were left out."""

    def render(count: int) -> list[Message]:
        order = sorted(range(count), key=places.__getitem__) if places else range(count)
        shown = {items_as: "\n".join(items[i] for i in order) or "(none)"} if items_as else {}
        return prompt.render({**values, **shown})

    fitting, too_many = 0, len(items) + 1
    probe = len(items)
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
    return render(fitting), len(items) - fitting


def _read(raw: _Raw, parse: Callable[[str], Output], max_tokens: int) -> tuple[Output | None, str]:
    try:
        return parse(raw["text"]), ""
    except BadOutput as error:
        cut = f"; it was cut at the length limit (max_tokens={max_tokens})" if raw["finish_reason"] == "length" else ""
        return None, f"{error}{cut}"


def _unfinished(raw: _Raw, parse: Callable[[str], Output]) -> Output | None:
    """What a reply that the length limit cut off says as far as it goes; None where a field is missing."""
    if raw["finish_reason"] != "length":
        return None
    try:
        return parse(close_json(raw["text"]))
    except BadOutput:
        return None


async def _repair(request: _Request, raw: _Raw, problem: str) -> _Raw | None:
    """Ask once more, saying what was wrong. None if that does not fit the model's context."""
    text = await asyncio.to_thread(load_prompt, _REPAIR)
    # Chat templates want user and assistant by turns, so an empty reply is shown as such.
    reply = raw["text"].strip()[:_QUOTED_REPLY] or "(empty)"
    messages = [*request.messages, Message("assistant", reply), *text.render({"problem": quoted(problem[:500])})]
    if request.schema and raw["finish_reason"] != "length" and request.endpoint.json_form == "json_schema":
        messages = described(messages, request.schema.schema)  # the server does not enforce it, so the model is told
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
        return await _ask(replace(request, messages=messages, call=call))
    except PromptTooLong:
        return None


async def _complete(request: _Request) -> Reply:
    return await request.endpoint.complete(
        request.messages,
        request_id=request.call["id"],
        schema=request.schema,
        temperature=request.context.temperature,
        max_tokens=request.context.max_tokens,
        seed=request.context.seed,
        top_logprobs=(ALTERNATIVES if request.binary else 0) if request.score else None,
        cache=await _cache(),
        on_failure=traced_failure,
    )


async def _send(request: _Request) -> _Raw:
    if request.shown is None:
        reply = await _complete(request)
    else:
        async with request.shown.streaming() as end:
            reply = await _complete(request)
            await end(reply.text)
    if request.score and reply.text and not reply.tokens:
        raise EndpointError(
            f"{request.endpoint.shown} gives no log-probabilities, and {request.context.method} needs them",
            hint=f"use a server that gives them (vLLM and llama.cpp do), or {request.context.without_logprobs}",
            permanent=True,
        )
    call: Call = {
        **request.call,
        "model": reply.model,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "cached_tokens": reply.cached_tokens,
        "started": round(reply.started, 3),
        "seconds": round(reply.seconds, 3),
        "finish_reason": reply.finish_reason,
        "cached": reply.cached,
    }
    scored = field_logprobs(reply.text, reply.tokens, request.score) if request.score else []
    return _Raw(
        text=reply.text,
        finish_reason=reply.finish_reason,
        call=call,
        logprobs=[token.logprob for token in scored],
        prompt=pack_prompt(request.messages),
        probability=true_probability(reply.text, reply.tokens, request.score) if request.binary else None,
    )


def pack_prompt(messages: Sequence[Message]) -> bytes:
    """Messages as a checkpoint keeps them: small, since they have passages in them."""
    return zlib.compress(json.dumps([[message.role, message.content] for message in messages]).encode(), 1)


def unpack_prompt(packed: bytes) -> list[tuple[str, str]]:
    """Role and text of each message; what a checkpoint that is not ours has in their place is not unpacked.

    Raises:
        ValueError: It is no packed prompt, or an absurdly long one.
    """
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, _LONGEST_PROMPT)
    except (zlib.error, TypeError) as error:
        raise ValueError(str(error)) from None
    if unpacking.unconsumed_tail:
        raise ValueError("too long")
    try:
        return [(str(role), str(content)) for role, content in json.loads(text)]
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


_ask: Callable[[_Request], Awaitable[_Raw]] = task(_send, name=MODEL_CALL)  # type: ignore[call-overload]


async def _cache() -> ResponseCache | None:
    settings = get_settings()
    if settings.cache == "off":
        return None
    from stores.responses import open_responses

    return await asyncio.to_thread(open_responses, settings.home / "responses.sqlite")
