"""Poisoned passages through every method: they stay between their delimiters, and control flow and output hold."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from hopgraph.methods import METHODS, context_class
from hopgraph.record import read_record
from hopgraph.run import ask, make_context
from hopgraph.views.trace import mentioned, render_trace
from nodes.kit.passages import find
from stores.checkpoints import open_checkpoints
from tests.poison import POISON, TOPIC
from tests.replies import proper_text
from tests.small import INDEX, PAIRS, QUESTION, TEXTS, VARIANTS, build_small

KEY = "sk-verysecret-0123456789"


@pytest.fixture
def poisoned(model, monkeypatch):
    """An index in which every passage but two is poisoned, in its title, too."""
    texts = {name: (f"{TOPIC} {text[:60]}", f"{TOPIC}. {text}") for name, text in POISON.items()}
    pairs = {name: [(f"Where was Ann Lee born? {text[:80]}", text[:100].strip())] for name, text in POISON.items()}
    monkeypatch.setenv("HOPGRAPH_LLM_API_KEY", KEY)
    server = model(lambda r: proper_text(r, 5))
    monkeypatch.setenv("HOPGRAPH_ATTRIBUTION_URL", server.url)
    monkeypatch.setenv("HOPGRAPH_ATTRIBUTION_API_KEY", KEY)
    build_small({key: TEXTS[key] for key in ("film", "lee")} | texts, PAIRS | pairs)
    return server


def fences(text: str) -> Counter[str]:
    """Our own delimiters in a prompt, by what they are."""
    return Counter(re.findall(r"</?\s*(?:passage|question|evidence)\b", text))


@pytest.mark.parametrize("method", METHODS)
async def test_poison_changes_neither_the_prompts_shape_nor_the_run_s_nor_what_can_be_shown(
    poisoned, home, method, caplog, capsys
):
    settings = VARIANTS.get(method, [{}])[0]
    async with open_checkpoints() as saver:
        context = make_context(method, {"index": INDEX, "top_k": 10, **settings})
        result = await ask(QUESTION, context, saver, thread="t")
        record = await read_record("t", saver)
    assert result["status"] in ("answered", "unanswerable")
    nodes = {node for extra in _prompts(method) for node in extra["langgraph_nodes"]}
    assert {request.node for request in poisoned.requests} <= nodes
    for request in poisoned.requests:
        roles = [message["role"] for message in request.body["messages"]]
        assert roles in (["user"], ["system", "user"])
        text = request.prompt
        found = fences(text)
        assert found["<passage"] == found["</passage"]
        assert found["<question"] == found["</question"]
        assert not re.search(r"<\|im_|\[/?INST\]|<<SYS>>|</s>", text)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u200b\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]", text)
        assert KEY not in json.dumps(request.body)
    page = render_trace(record, find(INDEX, mentioned(record)))
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert '" onmouseover="alert' not in page
    # No key in anything that is kept, shown or logged.
    said = page + json.dumps(result) + caplog.text + "".join(capsys.readouterr())
    assert KEY not in said
    for path in home.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()


def _prompts(method):
    fields = context_class(method).model_fields
    return [fields[name].json_schema_extra for name in context_class(method).prompts()]
