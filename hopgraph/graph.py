"""The result of `load`: a compiled LangGraph graph that also runs synchronously and checks its settings first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot

from hopgraph.background import iterate, run
from hopgraph.checkpoints import asynchronous
from hopgraph.contexts import checked
from hopgraph.mermaid import mermaid
from inference.errors import InputError
from nodes.kit.context import Context

if TYPE_CHECKING:
    from nodes.compactrag.state import ReaderInput
    from nodes.kit.state import QuestionInput, State

    Given = QuestionInput | ReaderInput | Command[Any] | None
    Settings = Mapping[str, Any] | Context | None

_RUNTIME = "__pregel_runtime"
"""Key of the enclosing graph's runtime, in a config's `configurable`."""


class MethodGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A method's graph. All of LangGraph's `CompiledStateGraph` works, synchronously and asynchronously.

    Synchronous calls run in a background event loop; closing the iterator of `stream`, or ctrl-C, cancels the run.

    `context` may be left out: the settings given to `load` count, and on a thread that is resumed (input `None` or a
    `Command`) those it was started with. A call's `context` overrides both.
    """

    method: str
    settings: Mapping[str, Any]
    """Settings for all calls."""

    def __init__(self, *, method: str, settings: Mapping[str, Any] | None = None, **parts: Any) -> None:
        super().__init__(**parts)
        self.method = method
        self.settings = dict(settings or {})

    @classmethod
    def of(cls, method: str, compiled: CompiledStateGraph[Any, Any, Any, Any]) -> Self:
        """The same graph as a method's."""
        parts = {name: part for name, part in vars(compiled).items() if name != "__orig_class__"}
        return cls(method=method, **parts)

    def invoke(  # type: ignore[override]  # narrower: the state is typed
        self, input: Given, config: RunnableConfig | None = None, *, context: Settings = None, **options: Any
    ) -> State:
        """Run the graph and wait for its final state.

        Args:
            input: `{"question": "..."}`, optionally with `contexts`; None resumes a thread.
            config: LangGraph's; `{"configurable": {"thread_id": "..."}}` with a checkpointer.
            context: Settings of this call.
            options: As for LangGraph's `invoke`.

        Raises:
            InputError: The question or a setting is wrong; the message names it.
            HopgraphError: The run failed. With a checkpointer, `invoke(None, config)` resumes from there.
        """
        return run(self.ainvoke(input, config, context=context, **options))

    async def ainvoke(  # type: ignore[override]
        self, input: Given, config: RunnableConfig | None = None, *, context: Settings = None, **options: Any
    ) -> State:
        """As `invoke`, awaited."""
        return cast("State", await super().ainvoke(input, config, context=context, **options))

    def stream(
        self, input: Given, config: RunnableConfig | None = None, *, context: Settings = None, **options: Any
    ) -> Iterator[Any]:
        """Run the graph step by step; `stream_mode` as for LangGraph, "messages" streams the answer's tokens."""
        return iterate(lambda: cast("Any", self.astream(input, config, context=context, **options)))

    async def astream(
        self, input: Given, config: RunnableConfig | None = None, *, context: Settings = None, **options: Any
    ) -> AsyncIterator[Any]:
        """As `stream`, for `async for`."""
        settings = await self._settings(input, config, context)
        async with aclosing(cast("Any", super().astream(input, config, context=settings, **options))) as chunks:
            async for chunk in chunks:
                yield chunk

    def batch(
        self,
        inputs: Sequence[Given],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[State]:
        """Run several inputs at a time (`max_concurrency` in `config` bounds them); final states in the same order."""
        return run(self.abatch(inputs, config, return_exceptions=return_exceptions, **options))

    async def abatch(
        self,
        inputs: Sequence[Given],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[State]:
        """As `batch`, awaited."""
        done = super().abatch(list(inputs), config, return_exceptions=return_exceptions, **options)
        return cast("list[State]", await done)

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """See LangGraph."""
        return run(self.aget_state(config, subgraphs=subgraphs))

    def get_state_history(self, config: RunnableConfig, **options: Any) -> Iterator[StateSnapshot]:
        """See LangGraph."""
        return iterate(lambda: cast("Any", self.aget_state_history(config, **options)))

    def update_state(self, config: RunnableConfig, *args: Any, **options: Any) -> RunnableConfig:
        """See LangGraph."""
        return run(self.aupdate_state(config, *args, **options))

    def bulk_update_state(self, config: RunnableConfig, supersteps: Any) -> RunnableConfig:
        """See LangGraph."""
        return run(self.abulk_update_state(config, supersteps))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """How a notebook shows the graph. LangGraph's own sends it to a web service to be drawn."""
        return {"text/plain": repr(self), "text/markdown": f"```mermaid\n{mermaid(self.get_graph())}\n```"}

    def _resolve_checkpointer(self, config: RunnableConfig) -> Any:
        return asynchronous(super()._resolve_checkpointer(config))

    async def _settings(self, given: Given, config: RunnableConfig | None, context: object) -> Context | None:
        """The settings of a call; None: those of the enclosing graph.

        LangGraph would leave a context that is not given at None, and report a wrong one in pydantic's words.
        """
        around = self._configured(config).get(_RUNTIME)
        if context is None and isinstance(getattr(around, "context", None), self._settings_class):
            return None
        if isinstance(context, Context):
            if not isinstance(context, self._settings_class):
                raise InputError(f"context: {type(context).__name__} is not for {self.method}")
            if not self.settings:
                return context
            context = {name: getattr(context, name) for name in context.model_fields_set}
        if not isinstance(context, Mapping | None):
            raise InputError(
                f"context: must be settings by name, not {type(context).__name__}", hint='for example {"index": "mine"}'
            )
        resuming = around is None and (given is None or isinstance(given, Command))
        begun = await self._begun_with(config) if resuming else {}
        return checked(self._settings_class, {**self.settings, **begun, **(context or {})})

    @property
    def _settings_class(self) -> type[Context]:
        return cast("type[Context]", self.context_schema)

    async def _begun_with(self, config: RunnableConfig | None) -> Mapping[str, Any]:
        """The settings that a thread was started with, if there are checkpoints."""
        if config is None or not self.checkpointer or "thread_id" not in self._configured(config):
            return {}
        settings = (await self.aget_state(config)).values.get("settings")
        return settings if isinstance(settings, dict) else {}

    def _configured(self, config: RunnableConfig | None) -> Mapping[str, Any]:
        """`configurable` of a call: its own, `with_config`'s, and the enclosing graph's."""
        return ensure_config(merge_configs(self.config, config)).get("configurable", {})
