"""`hopgraph serve` as installed: every method with the embedded model, by the official client, streaming and not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from hopgraph.methods import METHODS
from tests.installed.places import LIMIT, Place

pytestmark = pytest.mark.installed

ASKED = [{"role": "user", "content": "Where was the director of the film Days of Betrayal born?"}]
SHORT = {"top_k": 1, "max_tokens": 32}


@pytest.fixture(scope="module")
def client(base: Place) -> Iterator[openai.OpenAI]:
    command = [base.bin / "hopgraph", "serve", "--index", "demo", "--port", "0"]
    process = subprocess.Popen(command, cwd=base.folder, env=base.activated, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving"), line
        url = line.split(" at ")[1].split()[0]
        yield openai.OpenAI(base_url=url, api_key="unused", max_retries=0, timeout=LIMIT)
    finally:
        process.terminate()
        process.wait(30)


def answer(client: openai.OpenAI, method: str, *, stream: bool) -> str:
    """What came of a chat: its status, or the code of its error."""
    settings = {"max_tokens": 32} if method == "no_retrieval" else SHORT
    options = {"model": method, "messages": ASKED, "extra_body": {"settings": settings}}
    try:
        if not stream:
            return client.chat.completions.create(**options).hopgraph["status"]
        *_, last = client.chat.completions.create(**options, stream=True)
        return last.hopgraph["status"]
    except openai.APIError as error:
        return error.code


def test_every_method_answers(client):
    ways = [(method, number % 2 == 0) for number, method in enumerate(METHODS)]
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(METHODS, pool.map(lambda way: answer(client, way[0], stream=way[1]), ways), strict=True))
    # What so small a model writes need not be of any use, and then an error says so.
    assert {*found.values()} <= {"answered", "unanswerable", "model_output"}, found
    assert "answered" in found.values()
