"""Spans from LangChain's callbacks: run > node > model call or search."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.errors import GraphBubbleUp
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from hopgraph.telemetry.attributes import (
    known,
    reply_attributes,
    request_attributes,
    workflow_attributes,
    workflow_name,
)
from hopgraph.telemetry.export import tracer, without_secrets
from inference.errors import HopgraphError
from inference.settings import get_settings
from nodes.kit.request import MODEL_CALL
from nodes.kit.tracers import FAILED_TRY

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from hopgraph.results import Result
    from nodes.kit.context import Context

_NODE = "graph:step:"
"""Prefix of LangGraph's tag for nodes."""


class RunSpan:
    """The span of a run, and the callback handler for its child spans."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self.spans = Spans(span)

    def ended(self, result: Result) -> None:
        """Set the run's status and cost."""
        _set(
            self._span,
            {
                "hopgraph.status": result["status"],
                "hopgraph.calls": result["cost"]["calls"],
                "hopgraph.searches": result["cost"]["searches"],
                "hopgraph.steps": result["cost"]["steps"],
                "hopgraph.waiting": [row["node"] for row in result.get("waiting", [])] or None,
                "output.value": result["answer"] if get_settings().otel_texts == "on" else None,
            },
        )
        if (error := result.get("error")) and not result.get("waiting"):
            _set(self._span, {"error.type": error["kind"]})
            self._span.set_status(Status(StatusCode.ERROR, without_secrets(error["message"])))


@contextmanager
def run_span(context: Context, thread: str, question: str, *, question_id: str, resumed: bool) -> Iterator[RunSpan]:
    """A span around the block, as a child of the current one if any.

    Raises:
        InputError: The exporter is not installed.
    """
    more = {"hopgraph.question_id": question_id, "hopgraph.index": context.index, "hopgraph.resumed": resumed}
    with tracer().start_as_current_span(
        workflow_name(context.method),
        attributes=known(workflow_attributes(context.method, thread, question) | more),
        record_exception=False,  # exception texts may contain private data
        set_status_on_exception=False,
    ) as span:
        run = RunSpan(span)
        try:
            yield run
        except BaseException as error:
            _failed(span, error)
            raise
        finally:
            run.spans.close()


class Spans(BaseCallbackHandler):
    """Creates spans from LangGraph's callbacks: `graph.ainvoke(..., {"callbacks": [Spans()]})`.

    Args:
        parent: The span of the whole run. Default: create one for the graph.
    """

    run_inline = True  # in order; nothing here blocks

    def __init__(self, parent: Span | None = None) -> None:
        self._tracer = tracer()
        self._root = parent
        self._top: UUID | None = None
        """LangChain's run id of the graph, if it has its own span."""
        self._texts = get_settings().otel_texts == "on"
        self._spans: dict[UUID, Span] = {}
        """Open spans, by LangChain's run id."""
        self._within: dict[UUID, Span] = {}
        """Enclosing span of runs without their own (subgraphs, edges)."""

    def close(self) -> None:
        """End the spans left open by a cancelled run."""
        for span in self._spans.values():
            span.end()
        self._spans.clear()
        self._within.clear()

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: dict[str, Any],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A graph, a node, a model call, or an internal run of LangGraph has begun."""
        metadata, name = metadata or {}, str(kwargs.get("name") or "graph")
        if name == MODEL_CALL and isinstance(inputs, dict) and "request" in inputs:
            self._start_call(run_id, parent_run_id, inputs["request"])
        elif any(tag.startswith(_NODE) for tag in tags or ()):
            place = [row.partition(":")[0] for row in str(metadata.get("langgraph_checkpoint_ns", "")).split("|")]
            attributes = {
                "openinference.span.kind": "CHAIN",
                "hopgraph.node": name,
                "hopgraph.path": "/".join(place),
                "hopgraph.superstep": metadata.get("langgraph_step"),
            }
            self._start(run_id, parent_run_id, name, attributes)
        elif (around := self._around(parent_run_id)) is not None:
            self._within[run_id] = around
        else:
            question = inputs.get("question") if isinstance(inputs, dict) else None
            self._top = run_id
            self._start(
                run_id, None, workflow_name(name), workflow_attributes(name, metadata.get("thread_id"), question)
            )

    def on_chain_end(self, outputs: dict[str, Any], *, run_id: UUID, **kwargs: Any) -> None:
        """It has ended."""
        if (span := self._taken(run_id)) is None:
            return
        if run_id == self._top:
            _set(span, {"hopgraph.status": outputs.get("status") if isinstance(outputs, dict) else None})
        elif isinstance(outputs, dict) and isinstance(call := outputs.get("call"), dict):
            _set(span, reply_attributes(outputs, call, texts=self._texts))
        elif isinstance(outputs, dict) and isinstance(steps := outputs.get("trajectory"), list):
            rows = [step for step in steps if isinstance(step, dict)]
            verdicts = [str(step["verdict"]) for step in rows if step.get("verdict")]
            ids = [str(step.get("id", "")) for step in rows]
            _set(span, {"hopgraph.trajectory": ids or None, "hopgraph.verdicts": verdicts or None})
        span.end()

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """It has failed, or waits for review, which is not a failure."""
        if (span := self._taken(run_id)) is not None:
            _failed(span, error)
            span.end()

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """An attempt of a model call has failed; a retry may follow."""
        if name == FAILED_TRY and (span := self._around(run_id)) is not None:
            span.add_event(name, known(data))

    def on_retriever_start(
        self,
        serialized: dict[str, Any],
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A search has begun."""
        metadata = metadata or {}
        index = metadata.get("hopgraph_index")
        attributes = {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": index,
            "gen_ai.retrieval.query.text": query,
            "gen_ai.request.top_k": metadata.get("hopgraph_top_k"),
            "openinference.span.kind": "RETRIEVER",
            "input.value": query,
            "hopgraph.node": metadata.get("hopgraph_node"),
            "hopgraph.step": metadata.get("hopgraph_step"),
            "hopgraph.retriever": metadata.get("hopgraph_retriever"),
        }
        self._start(run_id, parent_run_id, f"retrieval {index}" if index else "retrieval", attributes)

    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **kwargs: Any) -> None:
        """It has ended."""
        if (span := self._taken(run_id)) is not None:
            found = [{"id": row.id, "score": row.metadata.get("score")} for row in documents]
            _set(
                span,
                {
                    "gen_ai.retrieval.documents": json.dumps(found),
                    "hopgraph.found": [str(row.id) for row in documents],
                },
            )
            span.end()

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """It has failed."""
        self.on_chain_error(error, run_id=run_id)

    def _start_call(self, run: UUID, around: UUID | None, request: Any) -> None:
        attributes = request_attributes(request, texts=self._texts)
        self._start(run, around, f"chat {request.call['model']}", attributes, SpanKind.CLIENT)

    def _start(
        self,
        run: UUID,
        around: UUID | None,
        name: str,
        attributes: Mapping[str, Any],
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:
        parent = self._around(around)
        context = None if parent is None else trace.set_span_in_context(parent)
        self._spans[run] = self._tracer.start_span(name, context, kind, known(attributes))

    def _around(self, run: UUID | None) -> Span | None:
        if run is None:
            return self._root
        return self._spans.get(run) or self._within.get(run) or self._root

    def _taken(self, run: UUID) -> Span | None:
        """Remove and return the open span of a run."""
        self._within.pop(run, None)
        return self._spans.pop(run, None)


def _set(span: Span, attributes: Mapping[str, Any]) -> None:
    span.set_attributes(known(attributes))


def _failed(span: Span, error: BaseException) -> None:
    """Record the error without private text: only the type for errors of other libraries."""
    if isinstance(error, GraphBubbleUp):
        span.set_attribute("hopgraph.waiting", True)
        return
    kind = error.kind if isinstance(error, HopgraphError) else type(error).__name__
    span.set_attribute("error.type", kind)
    message = without_secrets(error.message) if isinstance(error, HopgraphError) else kind
    span.set_status(Status(StatusCode.ERROR, message))
