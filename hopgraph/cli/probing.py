"""Checks of a model server for `hopgraph doctor`: context, structured output, log-probabilities, speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from inference.endpoint import Endpoint
    from inference.settings import Role

MIN_CONTEXT = 4096
"""Context length in tokens below which prompts with five passages of typical length may be truncated."""
_FORMS = {
    "json_schema": ("schema", ""),
    "json_object": ("json_object", "the server refuses JSON schemas: they are put into the prompt"),
    "prompt": ("prompt only", "the server has no JSON mode: schemas are put into the prompt"),
}
"""JSON mode of an endpoint: its name in the report, and advice."""


@dataclass(frozen=True)
class Finding:
    """Result of one check."""

    what: str
    state: Literal["ok", "note", "bad"]
    found: str
    advice: str = ""


async def probe(role: Role) -> list[Finding]:
    """Request a short structured reply with log-probabilities from a role's server; plain text from a scorer."""
    from inference.chat import Message
    from inference.endpoint_list import EndpointList
    from inference.errors import EndpointError
    from inference.settings import get_settings
    from nodes.kit.model import open_endpoint

    whose = "" if role == "llm" else f"{role}'s "
    endpoint = await open_endpoint(None, role)
    model = await endpoint.check()
    info = await endpoint.describe()
    kind = {"vllm": "vLLM", "llama.cpp": "llama.cpp", "other": "an OpenAI-compatible server"}[info.kind]
    if info.kind == "vllm" and (version := await endpoint.version()):
        kind = f"vLLM {version}"
    context = await endpoint.context()
    embedded = " (embedded)" if get_settings().server(role).url is None else ""
    length = f"{context:,} tokens of context" if context else "context length unknown"
    findings = [
        Finding(
            f"{whose}endpoint",
            "ok" if context and context >= MIN_CONTEXT else "note",
            f"{kind} at {endpoint.shown}{embedded}, model {model}, {length}",
            _about_context(context),
        )
    ]
    findings += [
        Finding(
            f"{whose}endpoint", "bad", f"{server.shown} can't be reached", "calls go to the others until it is back"
        )
        for server in (endpoint.servers if isinstance(endpoint, EndpointList) else [])
        if server.left_out
    ]
    if role != "attribution":
        findings += await _structured(endpoint, whose)
    if role == "llm" and info.kind == "vllm":
        findings += await _speed(endpoint)
    try:
        await endpoint.complete([Message("user", "Say: ok")], request_id="doctor", max_tokens=4, temperature=0.0)
    except EndpointError as error:
        findings.append(Finding(f"{whose}plain completion", "bad", error.message, error.hint))
    return findings


def _about_context(context: int | None) -> str:
    if context is None:
        return "set HOPGRAPH_LLM_CONTEXT; otherwise prompts are not truncated to fit"
    if context >= MIN_CONTEXT:
        return ""
    return "passages will be left out of prompts; 8,192 tokens fit ten of typical length and a long reply"


async def _structured(endpoint: Endpoint, whose: str) -> list[Finding]:
    from pydantic import BaseModel

    from inference.chat import Message, Schema
    from inference.structured import BadOutput, field_logprobs, parse_output
    from nodes.kit.model import output_schema

    class Probe(BaseModel):
        colour: Literal["red", "blue"]

    reply = await endpoint.complete(
        [Message("user", 'Name a colour. Reply with JSON only: {"colour": "red"} or {"colour": "blue"}')],
        request_id="doctor",
        schema=Schema("doctor__probe", output_schema(Probe)),
        max_tokens=32,
        top_logprobs=0,
    )
    findings = []
    try:
        parse_output(reply.text, Probe)
        form, advice = _FORMS[endpoint.json_form]
        found = f"{form}: {reply.text.strip()} in {reply.seconds:.2f} s"
        findings.append(Finding(f"{whose}structured output", "note" if advice else "ok", found, advice))
    except BadOutput as error:
        advice = "the server seems to ignore JSON schemas; answers will need repairs or fail"
        found = f"{error}: {reply.text.strip()[:100]!r}"
        findings.append(Finding(f"{whose}structured output", "bad", found, advice))
    if field_logprobs(reply.text, reply.tokens, ["colour"]):
        findings.append(await _logprobs(endpoint, whose))
    elif not whose:
        without = "PruneRAG and ProbTree can't run; HANRAG needs `verdicts=text`"
        findings.append(Finding("log-probabilities", "note", "not given", without))
    return findings


async def _logprobs(endpoint: Endpoint, whose: str) -> Finding:
    """Check log-probabilities: HANRAG's verdicts also need those of alternative tokens."""
    from inference.chat import Message
    from inference.errors import EndpointError
    from nodes.kit.request import ALTERNATIVES

    ask = [Message("user", "Say: ok")]
    what = f"{whose}log-probabilities"
    try:
        reply = await endpoint.complete(ask, request_id="doctor", max_tokens=1, top_logprobs=ALTERNATIVES)
    except EndpointError as error:
        advice = f"vLLM: --max-logprobs {ALTERNATIVES} or more; or set HANRAG's `verdicts=text`"
        return Finding(what, "note", f"of chosen tokens only: {error.message}", advice)
    if any(token.top for token in reply.tokens):
        return Finding(what, "ok", "given for every token, with alternatives")
    return Finding(what, "ok", "given for every token, without alternatives: HANRAG's verdicts use the chosen one only")


async def _speed(endpoint: Endpoint) -> list[Finding]:
    """Check vLLM's prefix cache and priority scheduling."""
    from inference.chat import Message
    from inference.limiter import priority

    shared = "The answer to each question is in one of the passages that follow. " * 30
    prompts = [[Message("system", shared), Message("user", ask)] for ask in ("Who?", "Where?")]
    if not all([await endpoint.fits(prompt, 1) for prompt in prompts]):
        return []
    priority.set(1)
    replies = [await endpoint.complete(prompt, request_id="doctor", max_tokens=1) for prompt in prompts]
    cached, length = replies[-1].cached_tokens, replies[-1].prompt_tokens
    seen = Finding("prefix cache", "ok", f"{cached} of {length} tokens cached for a prompt with a shared prefix")
    advice = "--enable-prompt-tokens-details reports them, and --enable-prefix-caching (the default) caches"
    unseen = Finding("prefix cache", "note", "no cached tokens are reported", advice)
    by_priority = Finding("scheduling", "ok", "requests of the oldest question first")
    by_arrival = Finding(
        "scheduling",
        "note",
        "first come, first served",
        "--scheduling-policy priority finishes the oldest question first",
    )
    return [seen if cached else unseen, by_priority if endpoint.ranks else by_arrival]
