"""`hopgraph report`: what is on the page is what was measured, and nothing of a run is markup."""

from __future__ import annotations

import json
import re
import sys

import pytest

from hopgraph.views import questions as report
from stores.build import build_index
from stores.passages import Passage
from tests.hopgraph.evaluation.conftest import LINES, row

POISON = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & {{ 7 * 7 }}"


@pytest.fixture
def run(hopgraph, model, questions, tmp_path):
    """Runs an evaluation into a folder; the model answers as the script says."""

    def start(rows, *words, out="run", answer="Paris", method="prism"):
        model(lambda request: {"answer": answer} if request.node == "generator" else LINES[request.node])
        options = ("-q", questions(rows, f"{out}.jsonl"), "--contexts", "--out", tmp_path / out)
        code, _, err = hopgraph("eval", "-m", method, *options, *words)
        assert code == 0, err
        return tmp_path / out

    return start


def page_of(hopgraph, *folders):
    code, out, err = hopgraph("report", *folders)
    assert code == 0, err
    assert out.strip() == str(folders[0] / "report.html")
    return (folders[0] / "report.html").read_text("utf-8")


def data_of(page, name="data"):
    return json.loads(re.search(rf'<script id="{name}" type="application/json">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_has_the_means_and_every_question_with_its_trajectories(run, hopgraph):
    folder = run([row(n) for n in range(1, 5)], method="prism,no_retrieval")
    page = page_of(hopgraph, folder)
    table = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page[page.index("<h2>Results") : page.index("<h2>Charts")]))
    assert re.search(r"prism 4 0 50\.0 0\.0 – 100\.0", table)
    assert data_of(page, "names") == ["prism", "no_retrieval"]
    data = data_of(page)
    assert [question["id"] for question in data["questions"]] == ["q1", "q2", "q3", "q4"]
    assert [question["v"]["0"][0] for question in data["questions"]] == [1, 0, 1, 0]
    prism = data["trajectories"]["q1"]["0"]
    assert prism["answer"] == "Paris"
    assert prism["steps"][0][1] == "analyzer"
    assert sorted(prism["titles"][at] for at in prism["gold"]) == ["Ann Lee", "X"]
    assert "Noise" in prism["titles"]
    assert data["trajectories"]["q1"]["1"]["titles"] == []
    assert [data["trajectories"]["q1"][number]["missing"] for number in ("0", "1")] == [[], []]
    files = {path.name for path in (folder / "report_files").iterdir()}
    assert {"quality-cost.png", "tokens.png", "cumulative-tokens.png"} <= files
    assert page.count("<figure") == len(files)


def test_gold_passages_that_no_search_found_are_named(run, hopgraph):
    folder = run([row(1, gold_titles=["X", "Ann Lee", "Elsewhere"])])
    data = data_of(page_of(hopgraph, folder))
    assert data["trajectories"]["q1"]["0"]["missing"] == ["Elsewhere"]


def test_what_is_gold_and_what_is_missing_on_the_page_is_what_was_scored(hopgraph, model, questions, tmp_path, home):
    build_index(
        "small",
        [
            Passage("first", "American Idol", "The show American Idol began in 2002."),
            Passage("second", "American Idol", "Bananas are yellow."),
            Passage("other", "Other", "Apples are green."),
        ],
    )
    model(lambda request: {"answer": "Paris"})
    asked = {"question": "When did the show American Idol begin?", "answers": ["2002"], "gold_ids": ["second", "other"]}
    titles = [["American Idol", "Other"], ["American Idol"], []]  # as long as the ids, shorter, none at all
    rows = [{**asked, "id": f"q{n}", "gold_titles": names} for n, names in enumerate(titles)]
    words = ("-m", "standard_rag", "-q", questions(rows), "--index", "small", "--set", "top_k=1")
    assert hopgraph("eval", *words, "--out", tmp_path / "run")[0] == 0
    data = data_of(page_of(hopgraph, tmp_path / "run"))
    for number in range(3):
        shown = data["trajectories"][f"q{number}"]["0"]
        assert data["questions"][number]["v"]["0"][2] == 0.0  # recall: the first passage was found, which is not gold
        assert shown["titles"] == ["American Idol"]
        assert (shown["gold"], shown["missing"]) == ([], ["American Idol", "Other"])


def test_missing_gold_has_its_title_even_if_the_index_has_only_parts_of_it(hopgraph, model, questions, home, tmp_path):
    long = "Ann Lee was born in Paris. " + "She liked to walk along the river in the evening. " * 60
    build_index("small", [Passage("film", "X", "X is a film."), Passage("lee", "Ann Lee", long)])
    model(lambda request: {"answer": "Paris"})
    asked = {"gold_ids": ["film", "lee", "gone"], "gold_titles": ["X", "Ann Lee", "Gone"], "question": "X is a film?"}
    words = ("-m", "standard_rag", "-q", questions([row(1, **asked)]), "--index", "small", "--set", "top_k=1")
    assert hopgraph("eval", *words, "--out", tmp_path / "run")[0] == 0
    data = data_of(page_of(hopgraph, tmp_path / "run"))
    assert data["trajectories"]["q1"]["0"]["missing"] == ["Ann Lee", "Gone"]


def test_gold_among_a_question_s_own_passages_is_marked_by_passage(run, hopgraph):
    contexts = [{"title": "X", "text": f"Number {word} of X."} for word in ("one", "two", "three")]
    folder = run([row(1, contexts=contexts, gold_titles=["X", "X"], gold_contexts=[1, 2])])
    data = data_of(page_of(hopgraph, folder))
    shown = data["trajectories"]["q1"]["0"]
    assert data["questions"][0]["v"]["0"][2] == 0.5  # the first was taken, which is not gold, and the second
    assert shown["titles"] == ["X", "X", "X"]
    assert [at in shown["gold"] for at in shown["evidence"]] == [False, True]
    assert shown["missing"] == ["X"]


def test_nothing_of_a_run_is_markup_on_the_page(run, hopgraph):
    folder = run([row(1, question=f"Where? {POISON}", type=POISON), row(2)], answer=POISON)
    page = page_of(hopgraph, folder)
    assert page.count("alert(1)") > 1
    assert page.count("<script") == 3  # two of data, and the page's own
    assert "<img" not in page
    assert data_of(page)["trajectories"]["q1"]["0"]["answer"] == POISON
    assert re.findall(r'(?:src|href)="(?!#)', page) == []


def test_trajectories_of_many_questions_are_in_files_beside_the_page(run, hopgraph, monkeypatch):
    monkeypatch.setattr(report, "INLINE", 2)
    monkeypatch.setattr(report, "CHUNK", 2)
    folder = run([row(n) for n in range(1, 6)])
    page = page_of(hopgraph, folder)
    assert data_of(page)["trajectories"] is None
    kept = {}
    for number in range(3):
        for line in (folder / "report_files" / f"questions-{number}.js").read_text().splitlines():
            key, variant, found = json.loads(line.removeprefix("add(").removesuffix(");"))
            kept[key] = (number, variant, found["answer"])
    assert kept == {f"q{n}": ((n - 1) // 2, 0, "Paris") for n in range(1, 6)}


def test_runs_are_put_together_and_variants_of_one_name_told_apart(run, hopgraph):
    first = run([row(n) for n in (1, 2)], out="first")
    second = run([row(n) for n in (1, 2)], out="second", answer="Rome")
    page = page_of(hopgraph, first, second)
    assert data_of(page, "names") == ["prism", "prism (second)"]
    assert [question["v"]["1"][0] for question in data_of(page)["questions"]] == [0, 1]
    assert "prism (second)" in page[page.index("<h2>Against prism") :]
    other = run([row(1, question="Another question?")], out="other")
    code, _, err = hopgraph("report", first, other)
    assert code == 2
    assert "question q1 differs from that of" in err


def test_what_the_others_are_compared_with_can_be_chosen(run, hopgraph):
    folder = run([row(n) for n in (1, 2)], method="prism,no_retrieval")
    code, _, err = hopgraph("report", folder, "--against", "no_retrieval")
    assert code == 0, err
    page = (folder / "report.html").read_text("utf-8")
    assert data_of(page, "names") == ["no_retrieval", "prism"]
    assert data_of(page)["trajectories"]["q1"]["1"]["steps"][0][1] == "analyzer"
    assert "<h2>Against no_retrieval</h2>" in page
    code, _, err = hopgraph("report", folder, "--against", "nobody")
    assert (code, "variants: prism, no_retrieval" in err) == (2, True)


def test_settings_that_differ_by_a_number_make_a_chart(run, hopgraph):
    folders = [run([row(1), row(2)], "--set", f"max_iterations={n}", out=f"r{n}") for n in (1, 2, 3)]
    page = page_of(hopgraph, *folders)
    assert 'id="sweep-max_iterations"' in page


def test_without_matplotlib_nothing_is_left_behind(run, hopgraph, monkeypatch):
    folder = run([row(1)])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = hopgraph("report", folder)
    assert (code, "charts need matplotlib" in err) == (2, True)
    assert not list(folder.glob("report*"))


def test_what_can_t_be_reported_is_said(hopgraph, run, tmp_path):
    code, _, err = hopgraph("report", tmp_path / "nothing")
    assert code == 2
    assert "no evaluation run found" in err
    folder = run([row(1)])
    (folder / "results.jsonl").write_text("")
    code, _, err = hopgraph("report", folder)
    assert code == 2
    assert "no results yet" in err
