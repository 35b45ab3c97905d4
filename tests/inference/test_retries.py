"""The retry policy that the chat endpoint and the embeddings endpoint share."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import pytest
from tenacity import Retrying

from inference.http import Refusal
from inference.retries import retry_policy


def pauses(retry_after: str, *, retries: int = 3, patience: float = 1000.0) -> list[float]:
    """Seconds before each further attempt of a request that is always refused."""
    found: list[float] = []

    def refused() -> Any:
        raise Refusal(503, "busy", retry_after)

    policy = retry_policy(retries, patience, lambda error: isinstance(error, Refusal))
    with pytest.raises(Refusal):
        Retrying(**policy, sleep=found.append)(refused)
    return found


def test_pauses_grow_with_jitter():
    first, second, third = pauses("")
    assert 0.5 <= first <= 1.0 <= second <= 1.5 <= third + 0.5 <= 3.0


def test_retry_after_is_honoured_as_seconds_and_as_a_date_up_to_a_bound():
    assert pauses("7") == [7, 7, 7]
    assert all(18 < pause <= 20 for pause in pauses(formatdate(time.time() + 20, usegmt=True)))
    assert pauses("9999") == [30, 30, 30]


def test_no_attempt_comes_after_the_patience_is_spent():
    assert pauses("7", patience=6.0) == []
    assert pauses("7", retries=1) == [7]
