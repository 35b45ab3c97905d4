"""`hopgraph report --export`: what other harnesses' scripts read is what was measured."""

from __future__ import annotations

import json

import pytest

from tests.hopgraph.evaluation.conftest import CONTEXTS, LINES, row


@pytest.fixture
def run(hopgraph, model, questions, tmp_path):
    """An evaluation of PRISM and of the model alone on four questions, the second one failed."""

    def script(request):
        if request.node == "generator" and "number 2?" in request.prompt:
            return "garbage"
        return LINES[request.node]

    model(script)
    rows = [row(n) for n in range(1, 5)]
    code, _, err = hopgraph(
        "eval", "-m", "prism,no_retrieval", "-q", questions(rows), "--contexts", "--out", tmp_path / "run"
    )
    assert code == 0, err
    return tmp_path / "run"


def test_flashrag_reads_its_own_format(run, hopgraph, tmp_path):
    code, out, err = hopgraph("report", run, "--export", "flashrag", "--out", tmp_path / "there")
    assert code == 0, err
    assert out.split() == [
        str(tmp_path / "there" / name / "intermediate_data.json") for name in ("prism", "no_retrieval")
    ]
    rows = json.loads((tmp_path / "there" / "prism" / "intermediate_data.json").read_text())
    assert [item["id"] for item in rows] == ["q1", "q2", "q3", "q4"]
    first, failed = rows[:2]
    assert set(first) == {"id", "question", "golden_answers", "output", "metadata"}
    assert first["golden_answers"] == ["Paris"]
    assert first["output"]["pred"] == "Paris"
    assert first["output"]["metric_score"] == {"em": 1.0, "f1": 1.0, "acc": 1.0}
    found = first["output"]["retrieval_result"]
    assert [item["contents"] for item in found[:2]] == [f"{item['title']}\n{item['text']}" for item in CONTEXTS[:2]]
    assert all(item["id"] for item in found)
    assert failed["output"]["pred"] == ""
    assert failed["output"]["metric_score"]["em"] == 0.0
    assert failed["metadata"]["status"] == "failed"
    scores = (tmp_path / "there" / "prism" / "metric_score.txt").read_text().split()
    assert scores == ["em:", "0.5", "f1:", "0.5", "acc:", "0.5"]


def test_hipporag_reads_its_own_format(run, hopgraph):
    assert hopgraph("report", run, "--export", "hipporag")[0] == 0
    rows = json.loads((run / "export-hipporag" / "prism.json").read_text())
    assert len(rows) == 4
    assert set(rows[0]) == {"question", "answer", "gold_answers", "docs", "doc_scores", "gold_docs"}
    assert rows[0]["answer"] == "Paris"
    assert rows[0]["docs"][0] == "X\nX is a film by Ann Lee."
    alone = json.loads((run / "export-hipporag" / "no_retrieval.json").read_text())
    assert alone[0]["docs"] == []


def test_an_unknown_format_is_said(run, hopgraph):
    code, _, err = hopgraph("report", run, "--export", "csv")
    assert code == 2
    assert "formats: flashrag, hipporag" in err
