"""Runs as OpenTelemetry spans, taken by a local collector over real HTTP."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hopgraph import telemetry
from hopgraph.cli import run_app
from hopgraph.methods import METHODS, load
from hopgraph.run import ask, astream, make_context, resume
from inference.errors import InputError
from inference.settings import get_settings
from stores.checkpoints import open_checkpoints
from tests.collector import Collector
from tests.graphs.test_prunerag import abstract, answer, split
from tests.graphs.test_prunerag import play as tree
from tests.hopgraph.test_run import CONTEXTS, HOPS, QUESTION, play
from tests.replies import proper_text
from tests.scripted import Raw
from tests.small import INDEX, build_small
from tests.small import QUESTION as SMALL

KEY = "sk-very-secret-key"


@pytest.fixture
def collector(home, monkeypatch):
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    telemetry.export._own_provider.cache_clear()
    with Collector().running() as server:
        monkeypatch.setenv("HOPGRAPH_OTEL", "on")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        get_settings.cache_clear()
        yield server
    telemetry.export._own_provider.cache_clear()


async def run(method, settings=None, thread="t", question=QUESTION, contexts=CONTEXTS):
    async with open_checkpoints() as saver:
        context = make_context(method, settings or {})
        result = await ask(question, context, saver, thread=thread, contexts=contexts)
    telemetry.flush()
    return result


async def test_a_run_with_a_subgraph_is_one_trace_of_nodes_calls_and_searches(model, collector, monkeypatch):
    server = model(lambda r: HOPS[r.node])
    monkeypatch.setenv("HOPGRAPH_LLM_API_KEY", KEY)
    get_settings.cache_clear()
    result = await run("hanrag", {"max_steps": 1})
    root = collector.only("invoke_workflow hanrag")
    assert {span.trace for span in collector.spans} == {root.trace}
    assert {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.conversation.id": "t",
        "hopgraph.method": "hanrag",
        "hopgraph.thread": "t",
        "hopgraph.question": QUESTION,
        "hopgraph.status": "answered",
        "hopgraph.calls": result["cost"]["calls"],
        "hopgraph.searches": 1,
        "hopgraph.resumed": False,
    }.items() <= root.attributes.items()
    assert not root.failed
    assert root.service == "hopgraph"
    paths = sorted(collector.path(span).removeprefix(root.name) for span in collector.spans)
    call = " > chat scripted"
    assert paths == sorted(
        [
            "",
            " > intake",
            " > router",
            f" > router{call}",
            " > refiner",
            f" > refiner{call}",
            " > anrag",
            " > anrag > retriever",
            " > anrag > retriever > retrieval",
            *[" > anrag > relevance_discriminator"] * 3,
            *[f" > anrag > relevance_discriminator{call}"] * 3,
            " > anrag > generator",
            f" > anrag > generator{call}",
            " > synthesizer",
            f" > synthesizer{call}",
        ]
    )
    calls = collector.named("chat scripted")
    assert len(calls) == len(server.requests)
    sent = next(r for r in server.requests if r.node == "synthesizer")
    (last,) = [span for span in calls if span.attributes["hopgraph.node"] == "synthesizer"]
    assert {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.max_tokens": 512,
        "gen_ai.response.model": "scripted",
        "gen_ai.usage.input_tokens": len(sent.prompt.split()),
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.prompt.name": "hanrag/synthesizer",
        "server.address": "127.0.0.1",
        "hopgraph.request_id": sent.id,
    }.items() <= last.attributes.items()
    assert sum(c.attributes["gen_ai.usage.output_tokens"] for c in calls) == result["cost"]["completion_tokens"]
    search = collector.only("retrieval").attributes
    assert search["gen_ai.retrieval.query.text"] == "Who directed X?"
    assert search["hopgraph.step"] == "root/1"
    assert [row["id"] for row in json.loads(search["gen_ai.retrieval.documents"])] == search["hopgraph.found"]
    assert len(search["hopgraph.found"]) == 3
    node = collector.parent(last)
    assert node.attributes["hopgraph.path"] == "synthesizer"
    assert collector.only("retriever").attributes["hopgraph.path"] == "anrag/retriever"
    assert node.start <= last.start <= last.end <= node.end
    # Neither the key nor any text that was not asked for.
    assert KEY.encode() not in collector.raw
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    for text in (b"is a film by Ann Lee", b'"answer"'):
        assert text not in collector.raw


async def test_spans_of_parallel_nodes_are_under_their_own_node(model, collector):
    script = {
        QUESTION: split("Who directed Alpha?", "Who directed Beta?"),
        "Who directed Alpha?": answer("Ann Lee", -0.01),
        "Who directed Beta?": answer("Bob Ray", -2.0),
        ("Who directed Beta?", "barred"): abstract("Beta"),
    }
    model(tree(decomposer=script, summarizer={"answer": "Bob Ray"}, aggregator={"thought": "t", "answer": "Ann Lee"}))
    result = await run("prunerag", {"top_k": 2})
    assert result["status"] == "answered"
    nodes = [span for span in collector.named("decomposer") if span.attributes["hopgraph.superstep"] > 4]
    assert len(nodes) == 2
    for node in nodes:
        below = [span for span in collector.spans if span.parent_id == node.id]
        assert sorted(span.name for span in below) == ["chat scripted", "retrieval"]
        # All three speak of the same node of the tree.
        (step,) = {span.attributes["hopgraph.step"] for span in below}
        assert step in node.attributes["hopgraph.trajectory"]
    assert {span.attributes["hopgraph.trajectory"][0] for span in nodes} == {"root/0", "root/1"}
    gates = collector.named("confidence_gate")
    assert any(v.startswith("rejected") for gate in gates for v in gate.attributes.get("hopgraph.verdicts", []))


async def test_texts_are_in_spans_only_when_asked_for(model, collector, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_OTEL_TEXTS", "on")
    model(play)
    await run("prism")
    (call,) = [s for s in collector.named("chat scripted") if s.attributes["hopgraph.node"] == "generator"]
    messages = json.loads(call.attributes["gen_ai.input.messages"])
    assert "Ann Lee was born in Paris." in messages[-1]["parts"][0]["content"]
    (reply,) = json.loads(call.attributes["gen_ai.output.messages"])
    assert reply == {
        "role": "assistant",
        "parts": [{"type": "text", "content": '{"answer": "Paris"}'}],
        "finish_reason": "stop",
    }
    assert collector.only("invoke_workflow prism").attributes["output.value"] == "Paris"


async def test_a_failed_run_and_its_resumption_are_two_traces_of_a_session(model, collector, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "1")
    monkeypatch.setenv("HOPGRAPH_LLM_API_KEY", KEY)
    down = True
    refusal = Raw(503, json.dumps({"error": {"message": f"key {KEY} refused"}}))
    model(lambda r: refusal if down and r.node == "adder" else play(r))
    assert (await run("prism"))["status"] == "failed"
    failed = collector.only("invoke_workflow prism")
    assert failed.failed
    assert failed.attributes["hopgraph.status"] == "failed"
    assert failed.attributes["error.type"] == "endpoint"
    assert "503" in failed.message
    adder = collector.only("adder")
    assert (adder.failed, adder.attributes["error.type"]) == (True, "endpoint")
    (call,) = [span for span in collector.spans if span.parent_id == adder.id]
    assert call.failed
    assert call.events == ["failed try"] * 2
    assert not collector.only("selector").failed

    collector.spans.clear()
    down = False
    async with open_checkpoints() as saver:
        assert (await resume("t", saver))["answer"] == "Paris"
        telemetry.flush()
        resumed = collector.only("invoke_workflow prism")
        assert resumed.trace != failed.trace
        assert resumed.attributes["session.id"] == failed.attributes["session.id"] == "t"
        assert resumed.attributes["hopgraph.resumed"] is True
        assert resumed.attributes["hopgraph.question"] == QUESTION
        # What was kept is not done again, and has no span.
        assert not collector.named("analyzer")
        assert len(collector.named("chat scripted")) == 4
        collector.spans.clear()
        await resume("t", saver)  # it has ended: nothing is run
        telemetry.flush()
    assert collector.spans == []
    assert KEY.encode() not in collector.raw


async def test_a_run_that_waits_for_a_person_has_not_failed(model, collector):
    model(lambda r: HOPS[r.node])
    result = await run("hanrag", {"max_steps": 2, "review": "human"})
    assert result["waiting"]
    root = collector.only("invoke_workflow hanrag")
    assert not root.failed
    assert root.attributes["hopgraph.waiting"] == ["ending_discriminator"]
    (gate,) = collector.named("ending_discriminator")
    assert gate.attributes["hopgraph.waiting"] is True
    assert not gate.failed


@pytest.mark.parametrize("method", METHODS)
async def test_every_method_s_spans_agree_with_its_ledger(model, collector, method):
    model(lambda r: proper_text(r))
    build_small()
    settings = {} if method == "no_retrieval" else {"index": INDEX}
    result = await run(method, settings, question=SMALL, contexts=None)
    cost = result["cost"]
    calls = collector.named("chat scripted")
    assert len(calls) == cost["calls"]
    assert sum(span.attributes["gen_ai.usage.input_tokens"] for span in calls) == cost["prompt_tokens"]
    searches = collector.named(f"retrieval {INDEX}")
    assert len(searches) == cost["searches"]
    assert all(span.attributes["gen_ai.data_source.id"] == INDEX for span in searches)
    assert {span.attributes["hopgraph.step"] for span in searches} <= {row["id"] for row in result["trajectory"]}
    assert len({span.trace for span in collector.spans}) == 1
    assert all(collector.path(span).startswith(f"invoke_workflow {method}") for span in collector.spans)


async def test_the_program_s_own_provider_is_used(model, collector, monkeypatch):
    model(play)
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    context = make_context("prism", {})
    with trace.get_tracer("mine").start_as_current_span("my request") as mine:
        async with open_checkpoints() as saver:
            events = [event async for event in astream(QUESTION, context, saver, thread="t", contexts=CONTEXTS)]
        # A graph of its own gets a span of its own.
        given = {"question": QUESTION, "contexts": CONTEXTS}
        await load("prism").ainvoke(given, {"callbacks": [telemetry.Spans()]}, context={})
    assert events[-1]["answer"] == "Paris"
    spans = kept.get_finished_spans()
    runs = [span for span in spans if span.name == "invoke_workflow prism"]
    assert len(runs) == 2
    for run in runs:
        assert run.parent.span_id == mine.get_span_context().span_id
        assert run.attributes["hopgraph.question"] == QUESTION
        assert run.attributes["hopgraph.status"] == "answered"
        below = [span.name for span in spans if span.parent and span.parent.span_id == run.context.span_id]
        assert below.count("analyzer") == 1
    telemetry.flush()
    assert collector.posts == []


async def test_nothing_is_sent_unasked(model, collector, monkeypatch):
    monkeypatch.delenv("HOPGRAPH_OTEL")
    get_settings.cache_clear()
    model(play)
    await run("prism")
    assert collector.posts == []


async def test_where_spans_go_is_said_by_the_standard_variables(model, collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc,x-team=hops")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{collector.url}/api/public/otel")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "questions")
    model(play)
    await run("prism")
    path, headers = collector.posts[0]
    assert path == "/api/public/otel/v1/traces"
    assert (headers["authorization"], headers["x-team"]) == ("Basic abc", "hops")
    assert {span.service for span in collector.spans} == {"questions"}


async def test_a_collector_that_fails_is_spoken_of_once(model, collector, caplog):
    collector.status = 401
    model(play)
    with caplog.at_level(logging.WARNING):
        assert (await run("prism"))["answer"] == "Paris"
        posts = len(collector.posts)
        assert (await run("prism", thread="u"))["answer"] == "Paris"
    # It is left alone for a while.
    assert len(collector.posts) == posts == 1
    said = [record.getMessage() for record in caplog.records if record.name == "hopgraph.telemetry.export"]
    assert len(said) == 1
    assert collector.url in said[0]
    assert "401" in said[0]


async def test_without_the_extra_it_is_said_what_to_install(model, collector, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    model(play)
    with pytest.raises(InputError, match="extra") as problem:
        await run("prism")
    assert "hopgraph[otel]" in problem.value.hint


def test_commands_send_their_spans_before_they_end(model, collector, tmp_path):
    model(play)
    contexts = tmp_path / "contexts.jsonl"
    contexts.write_text("\n".join(map(json.dumps, CONTEXTS)))
    words = ["ask", QUESTION, "--method", "prism", "--contexts", str(contexts), "--thread", "t", "--json"]
    done = subprocess.run([sys.executable, "-m", "hopgraph", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answer"] == "Paris"
    assert collector.only("invoke_workflow prism").attributes["hopgraph.thread"] == "t"
    assert len(collector.named("chat scripted")) == 6
    collector.status = 500
    words[words.index("t")] = "u"
    done = subprocess.run([sys.executable, "-m", "hopgraph", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["answer"] == "Paris"
    assert done.stderr.count("spans can't be sent") == 1
    assert "Traceback" not in done.stderr


def test_an_evaluation_has_a_trace_for_every_question(model, collector, tmp_path):
    model(play)
    rows = [
        {"id": f"q{n}", "question": f"{QUESTION} {n}", "answers": ["Paris"], "contexts": CONTEXTS} for n in range(3)
    ]
    questions = tmp_path / "questions.jsonl"
    questions.write_text("\n".join(map(json.dumps, rows)))
    words = ["eval", "--method", "prism", "--questions", str(questions), "--contexts", "--out", str(tmp_path / "run")]
    assert run_app(words) == 0
    telemetry.flush()
    runs = collector.named("invoke_workflow prism")
    assert {span.attributes["hopgraph.question_id"] for span in runs} == {"q0", "q1", "q2"}
    assert len({span.trace for span in runs}) == 3


def test_no_command_knows_of_it_unless_it_is_asked_for(home):
    code = (
        "import sys; from hopgraph.cli import run_app; run_app(['--help']); "
        "quick = not any(name.startswith('opentelemetry') for name in sys.modules); "
        "import hopgraph.run; sys.exit(not quick or 'hopgraph.telemetry' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
