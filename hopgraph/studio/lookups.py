"""What the page needs and LangGraph's API does not give: indexes, checks of settings, passages, calls, histories."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from hopgraph.methods import METHODS, READERS, load, make_context
from hopgraph.origins import check_thread, config_of, find_origin, origin_of
from hopgraph.record import read_record
from hopgraph.studio.names import names
from inference.errors import HopgraphError, InputError, StoreError
from nodes.intake import check_input
from nodes.kit.passages import find
from stores.checkpoints import KeptThread, kept_threads, open_served_checkpoints
from stores.index import list_indexes

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.types import StateSnapshot
    from starlette.requests import Request

    Saver = BaseCheckpointSaver[str]

MOST_THREADS = 100_000
"""Of a list of threads."""
MOST_PASSAGES = 1_000
"""Of one request."""
MOST_QUESTIONS = 100
"""Of one request."""
Lookup = Callable[["Request"], Awaitable[Response]]


def answering(lookup: Callable[[Request], Awaitable[object]]) -> Lookup:
    """A route that gives the JSON of a function's result, and its errors as `{"error": {"message", "hint"}}`."""

    async def answer(request: Request) -> Response:
        try:
            return JSONResponse(await lookup(request), headers={"cache-control": "no-store"})
        except HopgraphError as error:
            status = 400 if isinstance(error, InputError) else 404
            return JSONResponse({"error": {"message": error.message, "hint": error.hint}}, status)

    return answer


async def indexes(request: Request) -> object:
    """Names of all indexes."""
    return await run_in_threadpool(list_indexes)


async def settings(request: Request) -> object:
    """Whether settings of a method can be used: `{"problem", "hint"}`, both "" if they can.

    The body has `method` and `context`.
    """
    body = await _body(request)
    method, given = body.get("method"), body.get("context")
    if not isinstance(method, str) or method not in METHODS | READERS or not isinstance(given, dict):
        raise InputError("method: unknown method, or context is no object")
    try:
        await run_in_threadpool(_check, method, given)
    except (InputError, StoreError) as error:
        return {"problem": error.message, "hint": error.hint}
    return {"problem": "", "hint": ""}


def _check(method: str, given: Mapping[str, Any]) -> None:
    context = make_context(method, given)
    if method in METHODS:
        check_input(context, None)


async def passages(request: Request) -> object:
    """Passages by id: `{id: {"title", "text", "sentences"}}`; unknown ones are left out.

    The body has `index` (or null) and `ids`.
    """
    body = await _body(request)
    index, ids = body.get("index"), body.get("ids")
    if not isinstance(ids, list) or not all(isinstance(key, str) for key in ids) or len(ids) > MOST_PASSAGES:
        raise InputError(f"ids: must be a list of at most {MOST_PASSAGES:,} texts")
    if index is not None and not isinstance(index, str):
        raise InputError("index: must be a text or null")
    if index is not None and index not in await run_in_threadpool(list_indexes):
        index = None
    found = await run_in_threadpool(find, index, ids)
    return {
        key: {"title": passage.title, "text": passage.text, "sentences": list(passage.sentences)}
        for key, passage in found.items()
    }


async def threads(request: Request) -> object:
    """Threads of the checkpoint store, the most recently used first: `[{"id", "method", "question", "updated"}]`.

    The query's `limit` is their largest number.
    """
    limit = request.query_params.get("limit", str(MOST_THREADS))
    if not re.fullmatch("[1-9][0-9]{0,5}", limit):
        raise InputError(f"limit: must be a number from 1 to {MOST_THREADS:,}")
    async with _saver() as saver:
        kept, _ = await kept_threads(saver, min(int(limit), MOST_THREADS))
    return await run_in_threadpool(lambda: [_thread_row(row) for row in kept])


def _thread_row(row: KeptThread) -> dict[str, str]:
    origin = origin_of(row.metadata)
    about = {"method": origin.method if origin else "", "question": _cut(origin)}
    return {"id": row.id, **about, "updated": row.used.isoformat()}


def _cut(origin: Any) -> str:
    return origin.question[:300] if origin else ""


async def served(request: Request) -> object:
    """Make a thread of the checkpoint store known by the id that LangGraph's API takes: `{"id", "method", "question"}`.

    `method` is "" if the store has no such thread.
    """
    thread = check_thread(names().stored(request.path_params["thread"]))
    async with _saver() as saver:
        found = await find_origin(thread, saver)
    if found is None:
        return {"id": thread, "method": "", "question": ""}
    key = await run_in_threadpool(names().add, thread)
    return {"id": key, "method": found[0].method, "question": _cut(found[0])}


async def questions(request: Request) -> object:
    """The questions of threads whose metadata have none, from their states: `{id: question}`, without unknown ones.

    The body has `ids`.
    """
    ids = (await _body(request)).get("ids")
    if not isinstance(ids, list) or not all(isinstance(key, str) for key in ids) or len(ids) > MOST_QUESTIONS:
        raise InputError(f"ids: must be a list of at most {MOST_QUESTIONS} texts")
    found = {}
    async with _saver() as saver:
        for key in ids:
            latest = await saver.aget_tuple(config_of(check_thread(names().stored(key))))
            values = latest.checkpoint["channel_values"] if latest else {}
            given = values.get("__start__") or values
            if isinstance(given, dict) and (text := given.get("question") or given.get("passage")):
                found[key] = str(text)[:300]
    return found


async def history(request: Request) -> object:
    """The checkpoints of a thread, newest first, without their values.

    `[{"id", "parent", "source", "step", "next", "ran", "created", "waiting"}]`; `ran` has the nodes that made it.
    """
    thread = check_thread(names().stored(request.path_params["thread"]))
    method = request.query_params.get("method", "")
    if method not in METHODS | READERS:
        raise InputError(f"unknown method {method[:60]!r}")
    async with _saver() as saver:
        graph = load(method, saver)
        try:
            rows = [_checkpoint(row) async for row in graph.aget_state_history({"configurable": {"thread_id": thread}})]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(f"thread {thread}: its history can't be read ({type(error).__name__})") from None
    before = {row["id"]: row for row in rows}
    for row in rows:
        parent = before.get(row["parent"])
        row["ran"] = parent["next"] if parent is not None and row["source"] == "loop" else []
    return rows


def _checkpoint(row: StateSnapshot) -> dict[str, Any]:
    metadata: Mapping[str, Any] = row.metadata or {}
    parent = (row.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    return {
        "id": (row.config or {}).get("configurable", {}).get("checkpoint_id"),
        "parent": parent,
        "source": metadata.get("source", ""),
        "step": metadata.get("step", 0),
        "next": list(row.next),
        "created": row.created_at,
        "waiting": sum(len(task.interrupts) for task in row.tasks),
    }


async def record(request: Request) -> object:
    """Calls, visits and thresholds of a thread.

    `{"calls": {id: {"messages": [[role, text]], "reply"}}, "visits": {node: times}, "thresholds": {node: number},
    "context": {...}}`
    """
    async with _saver() as saver:
        found = await read_record(check_thread(names().stored(request.path_params["thread"])), saver)
    context = found.thread.context
    nodes = {step["node"] for step in found.result["trajectory"]}
    limits = {node: context.threshold_of(node) for node in sorted(nodes)}
    return {
        "calls": {row.call["id"]: {"messages": row.prompt, "reply": row.reply} for row in found.exchanges},
        "visits": found.visits,
        "thresholds": {node: limit for node, limit in limits.items() if limit is not None},
        "context": context.model_dump(mode="json", exclude_unset=True),
    }


def _saver() -> AbstractAsyncContextManager[Saver]:
    return open_served_checkpoints()


async def _body(request: Request) -> dict[str, Any]:
    """The request's JSON object.

    Raises:
        InputError: It is not one, or is not sent as JSON.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise InputError("the body must have content-type application/json")
    try:
        body = await asyncio.to_thread(json.loads, await request.body())
    except (ValueError, RecursionError):
        raise InputError("the body is not valid JSON") from None
    if not isinstance(body, dict):
        raise InputError("the body must be a JSON object")
    return body
