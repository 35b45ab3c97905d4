"""The papers' tables fit the project's metrics, datasets and variants, and are printed beside a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hopgraph.evaluation import plan
from hopgraph.evaluation.datasets import DATASETS
from hopgraph.evaluation.papers import FOLDER
from hopgraph.evaluation.suites import SUITES
from hopgraph.evaluation.summary import ALL_METRICS, Group, VariantSummary
from hopgraph.methods import METHODS
from inference.errors import InputError
from tests.hopgraph.evaluation.conftest import LINES, row

TABLES = [
    pytest.param(table, id=f"{table['source']}, {table['dataset']}")
    for path in sorted(FOLDER.glob("*.json"))
    for table in json.loads(path.read_text())
]
SHARES = ("share_of_incomplete", "share_of_wrong")
"""Rows of shares of one whole."""
PAPERS = (Path(__file__).parents[3] / "docs" / "papers.md").read_text()


def variants():
    """The name of every variant that a command makes without prompts of one's own."""
    yield from METHODS
    for method in METHODS:
        try:
            yield from (variant.name for variant in plan.ablations(method, {}))
        except InputError:
            continue
    for suite in SUITES:
        yield from (variant.name for variant in plan.suite(suite, {"index": "mine"}))


@pytest.mark.parametrize("table", TABLES)
def test_a_table_fits_metrics_datasets_and_variants(table):
    assert table["dataset"] in DATASETS
    if "groups" in table:
        assert {table["variant"]} <= {*variants()}
        assert table["by"] in VariantSummary.__annotations__
        assert set(table["rows"]) <= set(SHARES) | {"right_at_wrong_hops"} <= set(Group.__annotations__)
        for key, shares in table["rows"].items():
            assert len(shares) == len(table["groups"])
            assert sum(shares) == pytest.approx(100, abs=0.05) if key in SHARES else max(shares) <= 100
        return
    assert set(table["metrics"]) <= set(ALL_METRICS)
    assert set(table["rows"]) <= {*variants()}
    for values in table["rows"].values():
        assert len(values) == len(table["metrics"])
        for name, value in zip(table["metrics"], values, strict=True):
            assert value is None or 0 <= value <= (100 if ALL_METRICS[name].unit == "share" else 20_000)


def test_figures_stand_beside_the_run_s_own(hopgraph, model, questions, tmp_path):
    model(lambda request: LINES[request.node])
    rows = [row(1), row(2)]
    words = ("eval", "-m", "prism,no_retrieval", "--dataset", "hotpotqa", "-q", questions(rows), "--contexts")
    code, text, _ = hopgraph(*words, "--out", tmp_path / "run", "--papers", "--json")
    assert code == 0
    tables = {table["source"]: table["rows"] for table in json.loads(text)["papers"]}
    assert tables["PRISM, Tables 3 and 7"] == {
        "prism": {"em": {"paper": 0.542, "here": 0.5}, "f1": {"paper": pytest.approx(0.6696), "here": 0.5}}
    }
    assert tables["PruneRAG, Table 1"]["no_retrieval"]["efr"] == {"paper": None, "here": None}
    code, out, _ = hopgraph("eval", "--resume", tmp_path / "run", "--papers")
    assert "PRISM, Tables 3 and 7 (GPT-4o)" in out
    assert re.search(r"^prism +50\.0 +54\.2 +50\.0 +67\.0 *$", out, re.MULTILINE)


def test_errors_by_type_stand_beside_those_of_prism_s_table_8(hopgraph, model, questions, tmp_path):
    model(lambda request: LINES[request.node])
    rows = [row(2), row(3), row(4)]  # two bridge questions, wrong both, and a comparison
    words = ("eval", "-m", "prism", "--dataset", "hotpotqa", "-q", questions(rows), "--contexts")
    code, text, _ = hopgraph(*words, "--out", tmp_path / "run", "--papers", "--json")
    assert code == 0
    tables = {table["source"]: table for table in json.loads(text)["papers"]}
    assert tables["PRISM, Table 8"]["groups_of"] == "prism"
    assert tables["PRISM, Table 8"]["rows"]["share_of_wrong"] == {
        "bridge": {"paper": pytest.approx(0.838), "here": 1.0},
        "comparison": {"paper": pytest.approx(0.162), "here": 0.0},
    }
    assert tables["PRISM, Table 12"]["rows"]["prism"]["mismatch_at_full_recall"] == {"paper": 0.3711, "here": 1.0}
    assert tables["PRISM, Table 5"]["rows"]["prism"]["passages_kept"] == {"paper": 2.67, "here": 2.0}
    code, out, _ = hopgraph("eval", "--resume", tmp_path / "run", "--papers")
    assert re.search(r"^of wrong +100\.0 +83\.8 +0\.0 +16\.2 *$", out, re.MULTILINE)


def test_a_dataset_of_no_paper_is_said(hopgraph, model, questions, tmp_path):
    model(lambda request: LINES[request.node])
    code, _, err = hopgraph(
        "eval", "-m", "prism", "-q", questions([row(1)]), "--contexts", "--out", tmp_path / "run", "--papers"
    )
    assert code == 0
    assert "no table of the papers" in err


def test_the_page_of_the_papers_lists_every_table_figure_and_suite():
    parts = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAPERS, re.DOTALL | re.MULTILINE))
    counts = {"PruneRAG": (6, 6), "HANRAG": (5, 3), "CompactRAG": (3, 5), "PRISM": (12, 2), "PAR-RAG": (8, 7)}
    for paper, (tables, figures) in counts.items():
        rows = re.findall(r"^\| ([^|]+) \|", parts[paper], re.MULTILINE)
        named = {item.strip() for cell in rows for item in cell.split(",")}
        assert {f"Table {n}" for n in range(1, tables + 1)} <= named, paper
        assert {f"Fig. {n}" for n in range(1, figures + 1)} <= named, paper
    assert set(SUITES) <= set(re.findall(r"--suite ([\w-]+)", PAPERS))


def test_the_page_of_the_papers_names_what_exists():
    assert set(re.findall(r"--suite ([\w-]+)", PAPERS)) <= set(SUITES)
    assert set(re.findall(r"--ablations (\w+)", PAPERS)) <= set(METHODS)
    for method in re.findall(r"--method ([\w,]+)", PAPERS):
        assert method == "all" or set(method.split(",")) <= set(METHODS)
    for path in re.findall(r"\b((?:benchmarks|training|graphs)/[\w/]+\.(?:py|md))", PAPERS):
        assert (Path(__file__).parents[3] / path).exists(), path
