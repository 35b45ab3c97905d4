"""JSON over HTTP from threads, to a server of small requests: keep-alive, retries, no proxy for this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from inference.errors import InputError
from inference.http import Refusal, is_retryable
from inference.retries import retry_policy

if TYPE_CHECKING:
    import httpx


class BlockingClient:
    """A client of one server. Thread-safe.

    Args:
        url: Its URL.
        variable: Environment variable of the URL, for messages.
        key: API key, if the server wants one.
        timeout: Seconds to wait for one request.
        retries: Retries after a refused connection, a time-out, 408, 409, 425, 429 or 5xx.
        patience: Seconds from the first failure to the last retry, at most.

    Raises:
        InputError: The address is no http(s) URL.
    """

    def __init__(self, url: str, variable: str, *, key: str, timeout: float, retries: int, patience: float) -> None:
        import httpx

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{variable}: not an http(s) URL: {url!r}", hint="for example http://127.0.0.1:8001/v1")
        self._retries = retries
        self._patience = patience
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout, connect=min(10.0, timeout)),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            # No proxy from the environment for a server on this machine.
            trust_env=parts.hostname not in ("127.0.0.1", "localhost", "::1"),
        )

    def get(self, url: str, seconds: float) -> httpx.Response:
        """The response to one GET.

        Raises:
            httpx.HTTPError: The server did not respond.
        """
        return self._client.get(url, timeout=seconds)

    def post(self, url: str, body: Mapping[str, Any]) -> httpx.Response:
        """The response to a POST of JSON, of any status that is not retried.

        Raises:
            Refusal: The last attempt was refused with a status that is retried.
            httpx.HTTPError: The last attempt had no response.
        """
        import httpx
        from tenacity import Retrying

        def once() -> httpx.Response:
            answer = self._client.post(url, json=body)
            if is_retryable(answer.status_code):
                raise Refusal(answer.status_code, answer.text, answer.headers.get("retry-after", ""))
            return answer

        policy = retry_policy(
            self._retries, self._patience, lambda error: isinstance(error, Refusal | httpx.TransportError)
        )
        answer: httpx.Response = Retrying(**policy)(once)
        return answer


SHORTEST_CUT = 200
"""Characters that a text keeps at least when it is cut because the server rejects the request as too long."""
_TOO_LONG = re.compile(
    r"context length|max_model_len|maximum.{0,20}(length|tokens)|too (long|large|many tokens)", re.IGNORECASE
)
"""What servers say of an input that exceeds the model's context, in their own words."""


def halved(texts: Sequence[str], answer: httpx.Response) -> list[str] | None:
    """The texts of a request, none longer than half the longest, if the answer says that they are too long.

    None if it says something else, or if they are as short as they get: `SHORTEST_CUT` characters.
    """
    longest = max(map(len, texts))
    if answer.status_code not in (400, 413, 422) or longest <= SHORTEST_CUT or not _TOO_LONG.search(answer.text):
        return None
    return [text[: max(longest // 2, SHORTEST_CUT)] for text in texts]


def shortened(text: str) -> str:
    """A server's message in one line of at most 200 characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 200 else flat[:200] + "..."
