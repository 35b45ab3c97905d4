"""The attribution benchmark, with a scripted judge."""

from __future__ import annotations

import gzip
import json

import pytest

from benchmarks.attribution import main, report, sample


def row(label, source="S", claim="c"):
    return {"question": "Q?", "claim": claim, "references": ["r1", "r2"], "label": label, "source": source}


def test_contradictory_and_extrapolatory_are_not_attributable_and_the_unreadable_is_wrong():
    rows = [row("attributable")] * 2 + [row("not attributable", "T")] * 3
    text = report(rows, ["attributable", "contradictory", "extrapolatory", "contradictory", "unreadable"])
    # right 3 of 5; F1 of attributable 2*1/(1+2), of the other 2*2/(3+3)
    assert text.startswith("5 claims, accuracy 0.600 ± 0.429, macro-F1 0.667")
    assert "| attributable | 1 | 0 | 1 | 0 |" in text
    assert "| not attributable | 0 | 1 | 1 | 1 |" in text
    assert "| S | 2 | 0.500 |" in text
    assert "| T | 3 | 0.667 |" in text


def test_a_sample_is_even_over_sources_and_labels_and_repeatable():
    rows = [row("attributable", "big", str(n)) for n in range(50)] + [row("not attributable", "small", "x")]
    rows += [row("attributable", "small", str(n)) for n in range(5)]
    few = sample(rows, 6, seed=1)
    assert few == sample(rows, 6, seed=1)
    assert few != sample(rows, 6, seed=2)
    assert sum(r["source"] == "big" for r in few) in (2, 3)
    assert sum(r["label"] == "not attributable" for r in few) == 1


def test_the_graph_s_own_judge_is_asked(model, tmp_path, capsys: pytest.CaptureFixture[str]):
    server = model(lambda request: {"label": "attributable" if "true claim" in request.prompt else "contradictory"})
    data = tmp_path / "a.jsonl.gz"
    rows = [row("attributable", claim="true claim"), row("not attributable", claim="false claim")]
    data.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    main(data, limit=10, seed=0, attribution="model", max_tokens=32)
    assert "2 claims, accuracy 1.000" in capsys.readouterr().out
    assert all("attributable: the passages state it" in request.prompt for request in server.requests)
    assert all('<passage number="2"' in request.prompt for request in server.requests)
