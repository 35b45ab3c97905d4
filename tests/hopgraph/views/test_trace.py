"""`hopgraph trace`: a run as one page."""

from __future__ import annotations

import asyncio
import re
import sys

from hopgraph.cli import run_app
from hopgraph.run import ask, make_context
from stores.build import build_index
from stores.checkpoints import open_checkpoints
from stores.passages import Passage
from tests.graphs import test_compactrag, test_hanrag, test_parrag, test_prunerag
from tests.scripted import Raw
from tests.small import INDEX, build_small
from tests.small import QUESTION as SMALL

POISON = "<script>alert(1)</script></mark>{{ 7 * 7 }} & \x1b[31m"


def run(method, question, contexts, **context):
    async def once():
        async with open_checkpoints() as saver:
            return await ask(question, make_context(method, context), saver, thread="t1", contexts=contexts)

    return asyncio.run(once())


def page_of(tmp_path):
    path = tmp_path / "page.html"
    assert run_app(["trace", "t1", "--out", str(path)]) == 0
    return path.read_text("utf-8")


def prunerag_script():
    return test_prunerag.play(
        decomposer={
            test_prunerag.QUESTION: test_prunerag.answer("Bob", -2.0),
            (test_prunerag.QUESTION, "barred"): test_prunerag.split(test_prunerag.LEFT, test_prunerag.RIGHT),
            test_prunerag.LEFT: test_prunerag.answer("1950", -0.001),
        },
        aggregator={"thought": "t", "answer": "Ann Lee"},
    )


def test_a_page_has_every_step_with_what_was_asked_and_said(model, tmp_path):
    server = model(prunerag_script())
    result = run("prunerag", test_prunerag.QUESTION, test_prunerag.CONTEXTS, max_searches=2)
    page = page_of(tmp_path)
    assert [f'id="step-{row["id"]}"' in page for row in result["trajectory"]] == [True] * len(result["trajectory"])
    assert page.count('<details class="call">') == len(server.requests)
    assert page.count("Alpha is a film by Ann Lee.") > len(server.requests)  # in the prompts, and among the passages
    assert "rejected: confidence 0.135 is below 0.95" in page
    assert 'aria-label="score 0.135, threshold 0.95"' in page
    assert "pruned: the search budget is spent" in page
    assert '<mark title="contains the answer&#39;s words">Alpha is a film by Ann Lee.</mark>' in page
    assert "hopgraph resume" not in page
    assert page.index('id="step-root/0"') < page.index('id="step-root/1"')  # though it was cut before the other ended


def test_the_path_is_drawn_with_how_often_each_node_ran(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygraphviz", None)  # it is no part of the base install
    model(test_parrag.play(**test_parrag.BASE))
    run("parrag", test_parrag.QUESTION, test_parrag.CONTEXTS, hop_count=2, exemplars="none")
    page = page_of(tmp_path)
    drawing = page[page.index("<svg") : page.index("</svg>")]
    assert ">actor ×2<" in drawing
    assert ">planner<" in drawing
    assert drawing.count('fill="#5b6b8c"') > 5
    filled = re.findall(r'<path fill="#5b6b8c"[^>]*>\s*<text[^>]*>([^<]*)', drawing)
    assert "reviser" not in filled  # it did not run


def test_nothing_of_a_run_is_markup_on_the_page(model, tmp_path):
    model(test_parrag.play(**test_parrag.BASE | {"generator": {"thought": POISON, "answer": POISON}}))
    contexts = [{"title": POISON, "text": POISON, "sentences": [POISON]}, *test_parrag.CONTEXTS]
    run("parrag", f"Where? {POISON}", contexts, hop_count=1, exemplars="none")
    page = page_of(tmp_path)
    assert page.count("<script>") == 1  # the page's own
    assert "alert(1)" in page
    assert "{{ 7 * 7 }}" in page
    assert "\x1b" not in page
    outside = [link for link in re.findall(r'(?:src|href)="([^"]*)"', page) if not link.startswith("#")]
    assert outside == []
    assert "default-src 'none'" in page


def test_a_run_that_failed_is_shown_as_far_as_it_got(model, tmp_path):
    model(test_parrag.play(**test_parrag.BASE | {"generator": {"nothing": 1}}))
    result = run("parrag", test_parrag.QUESTION, test_parrag.CONTEXTS, hop_count=1, exemplars="none")
    assert result["status"] == "failed"
    page = page_of(tmp_path)
    assert "the run did not finish" in page
    assert '<b class="bad">repair</b>' in page


def test_a_run_that_was_cut_off_in_a_subgraph_is_shown_with_the_steps_made_there(model, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    replies = test_hanrag.play(**test_hanrag.COMPLEX)
    model(lambda r: Raw(503, "{}") if r.node == "generator" else replies(r))
    result = run("hanrag", test_hanrag.QUESTION, test_hanrag.CONTEXTS)
    assert result["status"] == "failed"
    page = page_of(tmp_path)
    assert [row["id"] for row in result["trajectory"] if f'id="step-{row["id"]}"' not in page] == []
    assert len(result["trajectory"]) > 3
    assert "resume with <code>hopgraph resume t1</code>" in page


def edited(edit):
    """Change what the latest checkpoint of the thread has."""

    async def once():
        async with open_checkpoints() as saver:
            latest = await saver.aget_tuple({"configurable": {"thread_id": "t1", "checkpoint_ns": ""}})
            edit(latest.checkpoint["channel_values"])
            latest.checkpoint["id"] = "f" + latest.checkpoint["id"][1:]
            await saver.aput(latest.config, latest.checkpoint, latest.metadata, {})

    asyncio.run(once())


def test_a_run_of_an_earlier_version_is_drawn(model, tmp_path):
    model(test_parrag.play(**test_parrag.BASE))
    result = run("parrag", test_parrag.QUESTION, test_parrag.CONTEXTS, hop_count=2, exemplars="none")

    def as_it_was(values):
        for call in values["ledger"]:
            del call["outer"], call["found"]

    edited(as_it_was)
    assert f'id="step-{result["trajectory"][-1]["id"]}"' in page_of(tmp_path)


def test_a_run_that_is_not_as_it_should_be_is_refused_in_words(model, capsys, tmp_path):
    model(test_parrag.play(**test_parrag.BASE))
    run("parrag", test_parrag.QUESTION, test_parrag.CONTEXTS, hop_count=2, exemplars="none")
    edited(lambda values: values["plan"][0].pop("attempts"))
    assert run_app(["trace", "t1", "--out", str(tmp_path / "page.html")]) == 2
    edited(lambda values: values["trajectory"][0].pop("kind"))
    assert run_app(["trace", "t1", "--out", str(tmp_path / "page.html")]) == 2
    edited(lambda values: values["ledger"][0].pop("kind"))
    assert run_app(["trace", "t1", "--out", str(tmp_path / "page.html")]) == 2
    err = capsys.readouterr().err
    assert err.count("thread t1: its state can't be read (KeyError") == 3
    assert "Traceback" not in err


def test_an_unknown_thread_or_run_is_said_so(home, capsys, tmp_path):
    assert run_app(["trace", "nowhere"]) == 2
    said = capsys.readouterr().err
    assert "unknown thread nowhere" in said
    assert "for a thread of an evaluation: `hopgraph trace nowhere --run DIR`" in said
    assert run_app(["trace", "x", "--run", str(tmp_path)]) == 2
    assert "checkpoints.sqlite" in capsys.readouterr().err
    assert run_app(["trace", "../../etc/passwd"]) == 2


def test_prunerag_s_tree_is_drawn_with_confidences_and_why_branches_end(model, tmp_path):
    model(prunerag_script())
    run("prunerag", test_prunerag.QUESTION, test_prunerag.CONTEXTS, max_searches=2)
    page = page_of(tmp_path)
    tree = page[page.index('<ul class="tree">') : page.index("<h2>Steps</h2>")]
    assert tree.count('<div class="box') == 3
    assert "0.135 &lt; 0.95" in tree or "0.135 < 0.95" in tree
    assert '<div class="box good">' in tree
    assert "✂ the search budget is spent" in tree
    assert "↑ Ann Lee" in tree


def test_parrag_s_plan_is_drawn_with_both_answers_and_their_scores(model, tmp_path):
    lines = test_parrag.BASE | {
        "planner": test_parrag.plan(test_parrag.WHO, test_parrag.WHERE),
        "actor": [{"answer": "Bob [3]"}, {"answer": "Paris [1]"}],
        "reviser": {"answer": "Ann Lee [1]"},
        "accuracy_judge": [{"score": 0.1}, {"score": 0.9}],
    }
    model(test_parrag.play(**lines))
    run("parrag", test_parrag.QUESTION, test_parrag.CONTEXTS, hop_count=2, exemplars="none")
    page = page_of(tmp_path)
    plan = page[page.index('<table class="plan">') : page.index("<h2>Steps</h2>")]
    assert plan.count("<tr class=") == 3
    assert plan.index("Bob") < plan.index("Ann Lee")
    assert 'rowspan="2"' in plan
    assert plan.count("rejected") == 1
    assert "planned: Where was that director born?" in plan


def test_hanrag_s_route_and_chain_are_drawn(model, tmp_path):
    model(test_hanrag.play(**test_hanrag.COMPLEX))
    run("hanrag", test_hanrag.QUESTION, test_hanrag.CONTEXTS)
    page = page_of(tmp_path)
    chain = page[page.index('<b class="route">') : page.index("<h2>Steps</h2>")]
    assert '<b class="route">complex</b>' in chain
    assert chain.count("<li>") == 2
    assert '<span class="left">Noise 0.10</span>' in chain
    assert "enough? 0.900 ≥ 0.5, the chain ends" in chain


def test_compactrag_s_sub_questions_are_drawn_with_their_pairs(model, home, tmp_path):
    names = test_compactrag.TEXTS.items()
    build_index("small", [Passage(id=key, title=title, text=text) for key, (title, text) in names])
    test_compactrag.read()
    model(test_compactrag.play())
    run("compactrag", test_compactrag.QUESTION, None, index="small")
    page = page_of(tmp_path)
    waves = page[page.index('<div class="wave">') : page.index("<h2>Steps</h2>")]
    assert waves.count('<div class="wave">') == 2
    assert "#2 needs #1" in waves
    assert "Where was Ann Lee born?" in waves
    assert '<li class="used">Where was Ann Lee born? Paris</li>' in waves


def test_the_page_says_what_is_evidence_and_why_sentences_are_marked(model, home, tmp_path):
    build_small()
    model(lambda r: {"answer": "Paris"})
    run("standard_rag", SMALL, None, index=INDEX, top_k=2)
    page = page_of(tmp_path)
    assert "the answer's words occur in 1 sentence of the evidence, marked" in page
    assert "Evidence kept by the method" in page
    assert "rests on" not in page
    assert "final evidence" not in page


def test_sentences_that_a_method_chose_are_said_to_be_chosen(model, home, tmp_path):
    build_small()
    lines = {"analyzer": {"subquestions": []}, "generator": {"answer": "Not Answerable"}}
    model(lambda r: lines.get(r.node, {"evidence": ["1.0"]}))
    run("prism", SMALL, None, index=INDEX)
    page = page_of(tmp_path)
    assert "1 sentence selected as evidence by the method is marked" in page
    assert page.count('<mark title="selected by the method">') == 1
    assert page.index("Evidence kept by the method") < page.index("Also retrieved, not kept as evidence")


def test_yes_and_no_mark_no_sentence(model, home, tmp_path):
    build_small({"film": ("A film", "No, it was shot in Greece.")}, pairs={})
    model(lambda r: {"answer": "No"})
    run("standard_rag", SMALL, None, index=INDEX)
    assert "<mark" not in page_of(tmp_path)
