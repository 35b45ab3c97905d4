"""The answer as it is generated, for LangGraph's `stream_mode="messages"` and LangChain's events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from langgraph.config import get_config
from pydantic_core import from_json

from inference.chat import without_reasoning
from inference.sse import on_text
from inference.structured import well_formed


def answer_so_far(reply: str) -> str:
    """The field `answer` of a JSON reply that may end anywhere; "" if it has not begun or can't be parsed."""
    _, brace, rest = without_reasoning(reply).partition("{")
    try:
        value = from_json(brace + rest, allow_partial="trailing-strings")
    except ValueError:
        return ""
    answer = value.get("answer") if isinstance(value, dict) else None
    return str(well_formed(answer)) if isinstance(answer, str) else ""


class ShownAnswer:
    """The part of a node's answer sent to listeners so far, over all tries and the repair.

    A try that begins with the text sent so far extends it. One that differs is a new message, with the id of the
    one it replaces in `response_metadata["replaces"]`.

    Args:
        node: Name of the node; messages have it as `langgraph_node`.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self._id = str(uuid4())
        self._text = ""

    @asynccontextmanager
    async def streaming(self) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
        """Stream the requests of this block if there are listeners; without any this costs nothing.

        Yields:
            A function to await with the whole reply: sends the rest, such as a reply from the cache.
        """
        run = await self._listeners()

        async def end(reply: str) -> None:
            if run is not None:
                await self._show(run, answer_so_far(reply), whole=True)

        async def say(text: str) -> None:
            await self._show(run, answer_so_far(text), whole=False)

        before = on_text.set(say if run is not None else None)
        try:
            yield end
        except BaseException as error:
            if run is not None:
                await run.on_llm_error(error)
            raise
        finally:
            on_text.reset(before)
        if run is not None:
            await self._ended(run)

    async def _listeners(self) -> Any:
        """A chat model's run that is reported only to handlers that listen to tokens; None: there are none."""
        config = get_config()
        manager: Any = config.get("callbacks")
        if not getattr(manager, "handlers", None):
            return None
        from langchain_core.tracers._streaming import _StreamingCallbackHandler

        own = manager.copy()
        own.handlers = [handler for handler in own.handlers if isinstance(handler, _StreamingCallbackHandler)]
        own.inheritable_handlers = []
        if not own.handlers:
            return None
        own.metadata = {**own.metadata, **config.get("metadata", {}), "langgraph_node": self._node}
        (run,) = await own.on_chat_model_start({"name": self._node}, [[]])
        return run

    async def _show(self, run: Any, answer: str, *, whole: bool) -> None:
        about = {}
        if not answer.startswith(self._text):
            if not answer or (not whole and self._text.startswith(answer)):
                return  # a retry, so far identical to the previous attempt
            about = {"replaces": self._id}
            self._id, self._text = str(uuid4()), ""
        new = answer[len(self._text) :]
        if not new:
            return
        from langchain_core.messages import AIMessageChunk
        from langchain_core.outputs import ChatGenerationChunk

        self._text = answer
        message = AIMessageChunk(content=new, id=self._id, response_metadata=about)
        await run.on_llm_new_token(new, chunk=ChatGenerationChunk(message=message))

    async def _ended(self, run: Any) -> None:
        from langchain_core.messages import AIMessage
        from langchain_core.outputs import ChatGeneration, LLMResult

        whole = [[ChatGeneration(message=AIMessage(content=self._text, id=self._id))]] if self._text else []
        await run.on_llm_end(LLMResult(generations=whole))
