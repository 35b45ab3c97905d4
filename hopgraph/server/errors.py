"""Errors in the form of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from inference.errors import HopgraphError

if TYPE_CHECKING:
    from nodes.kit.state import RunError

_STATUS = {"input": 400, "prompt_too_long": 400, "store": 409, "review": 409, "endpoint": 502, "model_output": 502,
           "store_unavailable": 503, "deadline": 504}  # fmt: skip
"""HTTP status by kind of error; of others 500."""
_PARAM = re.compile(r"([a-z_][a-z0-9_.\[\]]*): ")
THREAD = "x-hopgraph-thread"
"""Header with a thread's id, in requests and in responses."""


class ApiError(Exception):
    """A request that is answered with an error.

    Args:
        status: HTTP status.
        message: What is wrong, and what to do about it.
        type: OpenAI's class of errors.
        code: Machine-readable cause.
        param: The field of the request that is wrong.
        headers: Headers of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, Any] = {"error": {"message": message, "type": type, "param": param, "code": code}}
        # OpenAI's clients repeat a request after 409 and 5xx, without its thread. A run's failure, and a store that is
        # away, have been waited for already.
        final = status in (409, 500, 502, 504) or code == "store_unavailable"
        self.headers = {"x-should-retry": "false"} if final else {}
        self.headers |= headers or {}

    def response(self) -> JSONResponse:
        """The HTTP response."""
        return JSONResponse(self.body, self.status, self.headers)


def of_problem(problem: HopgraphError, thread: str = "") -> ApiError:
    """An error of the input, the store or the endpoint as one of the API.

    Args:
        problem: The error.
        thread: The thread it concerns.
    """
    return _error(problem.kind, problem.message, problem.hint, thread)


def of_failure(error: RunError, thread: str) -> ApiError:
    """The error of a failed run as one of the API."""
    resume = f"`hopgraph resume {thread}`, or this request again with the header {THREAD}: {thread}"
    hint = error.get("hint", "")
    if error["kind"] == "review":
        hint = f"decide and continue with `hopgraph resume {thread} --decision WORD`"
    elif error["kind"] != "model_output":
        hint = f"{hint}; then {resume}" if hint else f"nothing is lost: {resume}"
    return _error(error["kind"], error["message"], hint, thread)


def _error(kind: str, message: str, hint: str, thread: str) -> ApiError:
    status = _STATUS.get(kind, 500)
    named = _PARAM.match(message)
    return ApiError(
        status,
        f"{message} ({hint})" if hint else message,
        type="invalid_request_error" if status == 400 else "server_error",
        code=kind,
        param=named[1] if named and status == 400 else None,
        headers={THREAD: thread} if thread else None,
    )
