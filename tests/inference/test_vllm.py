"""The contract with vLLM itself, on the CPU: what the scripted server imitates, and what the methods rest on."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import struct
from array import array
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from pydantic import BaseModel

from benchmarks.vllm_cpu import installed, serving
from hopgraph import load
from hopgraph.cli import run_app
from hopgraph.demo import DATA, INDEX, PAIRS
from inference.chat import Message, Schema
from inference.encoders.configured import get_encoder
from inference.encoders.minilm import built_in_encoder
from inference.endpoint import Endpoint
from inference.errors import EndpointError, PromptTooLong
from inference.limiter import priority
from inference.rerankers.configured import get_reranker
from inference.settings import Settings, get_settings
from inference.structured import field_logprobs, field_span, parse_output
from stores.checkpoints import open_checkpoints

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not installed(), reason="vLLM is not installed: `make test-vllm` does it, 3 GB"),
]
METHODS = ("prism", "prunerag", "hanrag", "compactrag", "parrag")
BLOCK = 128
"""Tokens of a block of the prefix cache on a CPU."""
STORY = "Once a person went from town to town and asked everybody there for the way to the sea. " * 20
ENDLESS = Settings(llm_retries=0, llm_extra={"ignore_eos": True})
"""Replies end at `max_tokens` only."""


class Answer(BaseModel):
    note: str
    answer: str


SCHEMA = Schema(
    "test__answer",
    {
        "type": "object",
        "properties": {"note": {"type": "string", "maxLength": 40}, "answer": {"type": "string", "maxLength": 40}},
        "required": ["note", "answer"],
        "additionalProperties": False,
    },
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vllm") / "vllm.log"


@pytest.fixture(scope="module")
def url(log: Path) -> Iterator[str]:
    """vLLM with the model, and an adapter of random numbers on it."""
    adapter = log.parent / "adapter"
    write_adapter(adapter)
    lora = ("--enable-lora", "--max-lora-rank", "8", "--lora-modules", f"adapter={adapter}")
    with serving(log, flags=lora) as url:
        yield url


@pytest.fixture
async def vllm(url: str) -> AsyncIterator[Endpoint]:
    endpoint = Endpoint(url, "smollm2", Settings(llm_retries=0))
    yield endpoint
    await endpoint.close()


def write_adapter(folder: Path, layers: int = 30, width: int = 576, rank: int = 4) -> None:
    """An adapter on the queries' projections, in PEFT's format."""
    numbers, header, data = random.Random(0), {}, b""
    for layer in range(layers):
        for half, shape in (("A", [rank, width]), ("B", [width, rank])):
            part = array("f", (numbers.gauss(0, 0.05) for _ in range(rank * width))).tobytes()
            place = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
            header[f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora_{half}.weight"] = place
            data += part
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 8, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def metric(url: str, name: str, label: str = "") -> float:
    """A number of vLLM's own, summed over its labels."""
    text = httpx.get(url.removesuffix("/v1") + "/metrics", timeout=60, trust_env=False).text
    rows = [row for row in text.splitlines() if row.startswith(f"vllm:{name}{{") and label in row]
    assert rows, name
    return sum(float(row.rpartition(" ")[2]) for row in rows)


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if await asyncio.to_thread(holds):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it never came to that")


async def test_it_says_what_it_is(vllm):
    info = await vllm.describe()
    assert (info.kind, info.context) == ("vllm", 8192)
    assert info.models == ("smollm2", "adapter")


@pytest.mark.parametrize(
    "messages",
    [
        [Message("user", "Who?")],
        [Message("system", "Be brief."), Message("user", "1234567890 né 🙂 日本語 " * 20)],
        [Message("user", "a"), Message("assistant", "b"), Message("user", "c")],
    ],
)
async def test_prompts_are_counted_as_the_server_counts_them(vllm, messages):
    reply = await vllm.complete(messages, request_id="i", max_tokens=1)
    assert await vllm._count(messages) == reply.prompt_tokens > 0
    assert reply.finish_reason == "length"


async def test_what_does_not_fit_is_known_before_and_said_by_the_server(vllm):
    long = [Message("user", "word " * 8200)]
    assert not await vllm.fits(long, 64)
    assert await vllm.fits([Message("user", "word " * 8000)], 64)
    with pytest.raises(PromptTooLong, match="maximum context length"):
        await vllm.complete(long, request_id="i", max_tokens=1)


@pytest.mark.parametrize("name", ["São Tomé 🙂", 'the "x" {y}'])
async def test_the_tokens_of_a_field_spell_it(vllm, name):
    shown = json.dumps({"note": name, "answer": name}, ensure_ascii=False)
    ask = [Message("user", f"Copy this exactly: {shown}")]
    reply = await vllm.complete(ask, request_id="i", schema=SCHEMA, top_logprobs=0, max_tokens=120)
    copied = parse_output(reply.text, Answer)
    # It lists the token that ends the turn, too.
    assert b"".join(token.text for token in reply.tokens).decode().removesuffix("<|im_end|>") == reply.text
    for field in ("note", "answer"):
        span = field_span(reply.text, [field])
        assert span is not None
        spelled = b"".join(token.text for token in field_logprobs(reply.text, reply.tokens, [field])).decode()
        assert reply.text[span.start : span.end] in spelled
        assert len(spelled) <= span.end - span.start + 8
        assert json.loads(f'"{reply.text[span.start : span.end]}"') == getattr(copied, field)


async def test_the_confidence_is_that_of_the_model_without_the_schema_s_mask(vllm):
    """PruneRAG, Sec. 3.2.2: the mean over the answer's own tokens; another request scores them one by one."""
    ask = [Message("system", "Reply with JSON."), Message("user", "What is the capital of France?")]
    reply = await vllm.complete(ask, request_id="i", schema=SCHEMA, top_logprobs=0, max_tokens=80)
    scored = field_logprobs(reply.text, reply.tokens, ["answer"])
    assert scored
    root = vllm.url.removesuffix("/v1")
    messages = [{"role": message.role, "content": message.content} for message in ask]
    form = {"type": "json_schema", "json_schema": {"name": SCHEMA.name, "schema": SCHEMA.schema, "strict": True}}
    again = {"model": "smollm2", "messages": messages, "temperature": 0, "max_tokens": 80, "response_format": form}
    async with httpx.AsyncClient(timeout=300, trust_env=False) as http:
        said = (await http.post(f"{vllm.url}/chat/completions", json=again | {"return_token_ids": True})).json()
        (choice,) = said["choices"]
        assert choice["message"]["content"] == reply.text
        tokens = (await http.post(f"{root}/tokenize", json={"model": "smollm2", "messages": messages})).json()["tokens"]
        assert tokens == said["prompt_token_ids"]
        whole = {"model": "smollm2", "prompt": tokens + choice["token_ids"], "max_tokens": 1, "prompt_logprobs": 0}
        rows = (await http.post(f"{vllm.url}/completions", json=whole)).json()["choices"][0]["prompt_logprobs"]
    own = [row[str(token)]["logprob"] for row, token in zip(rows[len(tokens) :], choice["token_ids"], strict=True)]
    first = next(at for at, token in enumerate(reply.tokens) if token is scored[0])
    given = [token.logprob for token in scored]
    exact = own[first : first + len(scored)]
    # The numbers have eight bits, and a batch of one and a whole prompt are added up in different orders.
    assert given == pytest.approx(exact, abs=0.5)
    confidence = [math.exp(sum(row) / len(row)) for row in (given, exact)]
    assert confidence[0] == pytest.approx(confidence[1], abs=0.1)


async def test_a_shared_beginning_is_taken_from_the_cache(vllm):
    first, second = [
        await vllm.complete([Message("system", STORY), Message("user", ask)], request_id="i", max_tokens=4)
        for ask in ("Who?", "Where did that person go?")
    ]
    assert first.cached_tokens == 0
    assert second.cached_tokens % BLOCK == 0
    assert 2 * BLOCK <= second.cached_tokens < second.prompt_tokens


async def test_its_log_names_our_requests(vllm, log):
    await vllm.complete([Message("user", "x")], request_id="thread-7.prism.selector.0a1b2c3d", max_tokens=1)
    assert "chatcmpl-thread-7.prism.selector.0a1b2c3d" in log.read_text("utf-8", "replace")


async def test_cancelled_calls_end_in_the_server_too(url):
    """Six endless replies: they run side by side, as many as we let through, and none of them goes on without us."""
    endpoint = Endpoint(url, "smollm2", ENDLESS.model_copy(update={"llm_concurrency": 4}))
    ended = [metric(url, "request_success_total", f'finished_reason="{why}"') for why in ("stop", "length")]
    calls = [
        asyncio.create_task(endpoint.complete([Message("user", f"Tell {n}")], request_id=f"{n}", max_tokens=8000))
        for n in range(6)
    ]
    await until(lambda: metric(url, "num_requests_running") == 4)
    assert metric(url, "num_requests_waiting") == 0
    assert not any(call.done() for call in calls)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await until(lambda: metric(url, "num_requests_running") == 0)
    assert ended == [metric(url, "request_success_total", f'finished_reason="{why}"') for why in ("stop", "length")]
    await endpoint.complete([Message("user", "x")], request_id="after", max_tokens=1)  # slots are free again
    await endpoint.close()


async def test_it_takes_whose_question_is_older(vllm):
    async def of_a_later_question() -> str:
        priority.set(3)
        return (await vllm.complete([Message("user", "x")], request_id="i", max_tokens=1)).finish_reason

    await vllm.describe()
    assert await asyncio.create_task(of_a_later_question()) == "length"
    assert vllm.ranks


async def test_an_adapter_answers_under_its_own_name_and_has_its_base_s_context(url, vllm):
    ask = [Message("user", "Name three cities of France.")]
    adapter = Endpoint(url, "adapter", Settings(llm_retries=0))
    assert await adapter.context() == 8192
    other = await adapter.complete(ask, request_id="i", max_tokens=4, top_logprobs=0)
    plain = await vllm.complete(ask, request_id="i", max_tokens=4, top_logprobs=0)
    assert (plain.model, other.model) == ("smollm2", "adapter")
    assert plain.tokens[0].logprob != other.tokens[0].logprob
    await adapter.close()


async def test_a_bad_field_is_refused_with_its_words(url):
    bad = Endpoint(url, "smollm2", Settings(llm_retries=0, llm_extra={"repetition_penalty": "much"}))
    with pytest.raises(EndpointError, match=r"status 400: .*repetition_penalty"):
        await bad.complete([Message("user", "x")], request_id="i", max_tokens=1)


def test_the_doctor_finds_all_that_the_methods_need(url, home, monkeypatch, capsys):
    monkeypatch.setenv("HOPGRAPH_LLM_URL", url)
    monkeypatch.setenv("HOPGRAPH_LLM_MODEL", "smollm2")
    get_settings.cache_clear()
    assert run_app(["doctor", "--json"]) == 0
    findings = {row["what"]: row for row in json.loads(capsys.readouterr().out)["findings"]}
    needed = ("endpoint", "structured output", "log-probabilities", "prefix cache", "scheduling")
    assert [findings[what]["state"] for what in needed] == ["ok"] * 5, findings
    assert "vLLM 0." in findings["endpoint"]["found"]
    assert "with alternatives" in findings["log-probabilities"]["found"]


@pytest.fixture(scope="module")
def evaluation(url: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """All methods on three questions of the demo, in one evaluation; the adapter writes the answers."""
    folder = tmp_path_factory.mktemp("evaluation")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "HOPGRAPH_HOME": str(folder / "home"),
            "HOPGRAPH_LLM_URL": url,
            "HOPGRAPH_LLM_MODEL": "smollm2",
            "HOPGRAPH_GENERATOR_MODEL": "adapter",
        }.items():
            patch.setenv(name, value)
        get_settings.cache_clear()
        assert run_app(["index", str(DATA / "passages.jsonl"), "--name", INDEX]) == 0
        assert run_app(["read", "--index", INDEX, "--import", str(PAIRS)]) == 0
        code = run_app(
            [
                *("eval", "--method", ",".join(METHODS), "--questions", str(DATA / "questions.jsonl"), "--limit", "3"),
                *("--dataset", "2wikimultihopqa", "--index", INDEX, "--set", "top_k=2", "--set", "max_tokens=64"),
                *("--out", str(folder / "run"), "--json"),
            ]
        )
        assert code == 0
    get_settings.cache_clear()
    return folder, [json.loads(line) for line in (folder / "run" / "results.jsonl").read_text("utf-8").splitlines()]


def test_every_method_answers_or_says_why_not(evaluation):
    _, results = evaluation
    assert sorted(result["method"] for result in results) == sorted(METHODS * 3)
    for result in results:
        assert result["status"] in ("answered", "unanswerable", "failed")
        if result["status"] == "failed":
            assert result["error"]["kind"] == "model_output", result
        assert result["cost"]["calls"] > 0


async def test_the_ledger_has_what_the_server_says_of_each_call(evaluation, log):
    folder, results = evaluation
    said, cached, models = log.read_text("utf-8", "replace"), 0, set()
    async with open_checkpoints(str(folder / "run" / "checkpoints.sqlite")) as saver:
        for result in results:
            graph = load(result["method"], saver)
            state = (await graph.aget_state({"configurable": {"thread_id": result["thread"]}})).values
            for call in state["ledger"]:
                if call["kind"] == "model":
                    assert f"chatcmpl-{call['id']}" in said
                    assert call["prompt_tokens"] > call["cached_tokens"] >= 0
                    assert call["cached_tokens"] % BLOCK == 0
                    models.add(call["model"])
                    cached += call["cached_tokens"]
    assert cached > 0
    assert models == {"smollm2", "adapter"}


def test_the_gate_of_prunerag_has_confidences(evaluation):
    _, results = evaluation
    steps = [step for result in results if result["method"] == "prunerag" for step in result["trajectory"]]
    gated = [step for step in steps if re.match("accepted|rejected: confidence|pruned: its answer", step["verdict"])]
    assert gated
    assert all(0.0 < step["score"] <= 1.0 for step in gated)


def test_an_index_is_built_searched_and_reranked_with_its_embeddings(tmp_path, home, monkeypatch, capsys):
    texts = ["Ann Lee was born in Paris.", "Bananas are yellow.", "A film by a French director. " * 100]
    built_in = built_in_encoder().encode_passages(texts[:2])
    with serving(tmp_path / "embeddings.log", embeddings=True) as url:
        monkeypatch.setenv("HOPGRAPH_EMBED_URL", url)
        get_settings.cache_clear()
        vectors = get_encoder().encode_passages(texts)
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(3), abs=1e-3)
        assert ((vectors[:2] * built_in).sum(axis=1) > 0.9).all()  # ours is the same model in eight bits
        assert run_app(["index", str(DATA / "passages.jsonl"), "--name", INDEX]) == 0
        capsys.readouterr()
        assert run_app(["search", "Who directed Nezha Conquers the Dragon King?", "--index", INDEX, "--json"]) == 0
        assert capsys.readouterr().out
        # The same server reranks, by the cosines of the embedding model.
        monkeypatch.setenv("HOPGRAPH_RERANK_URL", url)
        get_settings.cache_clear()
        scores = get_reranker().rerank("Where was Ann Lee born?", texts)
        assert scores.values[0] > max(scores.values[1:])
        assert (scores.model, scores.truncated) == ("all-MiniLM-L6-v2", 1)
        assert scores.tokens > 20
