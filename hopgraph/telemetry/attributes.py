"""Attributes of spans, by OpenTelemetry's conventions for generative AI, OpenInference's, and Hopgraph's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit


def workflow_name(method: str) -> str:
    """Name of a run's span."""
    return f"invoke_workflow {method}"


def workflow_attributes(method: str, thread: str | None, question: str | None) -> dict[str, Any]:
    """Attributes of a run's span."""
    return {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": method,
        "gen_ai.conversation.id": thread,
        "session.id": thread,  # viewers group a thread's runs by it
        "openinference.span.kind": "CHAIN",
        "input.value": question,
        "hopgraph.method": method,
        "hopgraph.thread": thread,
        "hopgraph.question": question,
    }


def request_attributes(request: Any, *, texts: bool) -> dict[str, Any]:
    """Attributes of a model call (`nodes.kit.request`); `texts` adds its messages."""
    call = request.call
    server = urlsplit(request.endpoint.url if "," not in request.endpoint.url else "")  # of a list, unknown here
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",  # the protocol; the server is unknown
        "gen_ai.request.model": call["model"],
        "gen_ai.request.temperature": request.context.temperature,
        "gen_ai.request.max_tokens": request.context.max_tokens,
        "gen_ai.request.seed": request.context.seed,
        "gen_ai.output.type": "json" if request.schema else "text",
        "gen_ai.prompt.name": call["prompt"],
        "gen_ai.conversation.id": call["id"].partition(".")[0],
        "server.address": server.hostname,
        "server.port": server.port or {"https": 443, "http": 80}.get(server.scheme),
        "openinference.span.kind": "LLM",
        "hopgraph.node": call["node"],
        "hopgraph.step": call["step"],
        "hopgraph.request_id": call["id"],
        "hopgraph.prompt_hash": call["prompt_hash"],
        "hopgraph.repair": call["repair"],
    }
    if texts:
        rows = [_message(message.role, message.content) for message in request.messages]
        attributes["gen_ai.input.messages"] = json.dumps(rows, ensure_ascii=False)
    return attributes


def reply_attributes(raw: Mapping[str, Any], call: Mapping[str, Any], *, texts: bool) -> dict[str, Any]:
    """Attributes of a model call's reply and its ledger entry; `texts` adds the text."""
    finish = str(raw.get("finish_reason", ""))
    attributes = {
        "gen_ai.response.model": call["model"],
        "gen_ai.response.finish_reasons": [finish],
        "hopgraph.cached": call["cached"],
        "hopgraph.seconds": call["seconds"],
    }
    if not call["cached"]:  # a cached call used no tokens
        attributes["gen_ai.usage.input_tokens"] = call["prompt_tokens"]
        attributes["gen_ai.usage.output_tokens"] = call["completion_tokens"]
        attributes["gen_ai.usage.cache_read.input_tokens"] = call["cached_tokens"]
    if texts:
        reply = _message("assistant", str(raw.get("text", ""))) | {"finish_reason": finish}
        attributes["gen_ai.output.messages"] = json.dumps([reply], ensure_ascii=False)
    return attributes


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that are not None."""
    return {name: value for name, value in attributes.items() if value is not None}
