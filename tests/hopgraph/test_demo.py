from __future__ import annotations

from hopgraph import demo
from hopgraph.evaluation.datasets import read_questions
from hopgraph.evaluation.simulated import Simulation
from hopgraph.methods import METHODS
from hopgraph.simulation.playing import playing


def test_a_run_is_shown_whole_then_all_methods_and_ten_questions(home, capsys):
    demo._index()
    questions = read_questions(demo.DATA / "questions.jsonl", "2wikimultihopqa")
    with playing(Simulation(), questions, demo.INDEX):
        demo.main()
    shown, _, rest = capsys.readouterr().out.partition("The same question, every method.")
    assert "Otakar Vávra" in shown  # the step between
    assert "Hradec Králové" in shown
    methods, _, ten = rest.partition("Ten questions")
    lines = {line.split()[1]: line for line in methods.splitlines() if line[:1] in "✓✗" and line}
    assert set(lines) == set(METHODS)
    assert lines["parrag"].startswith("✓")
    assert lines["no_retrieval"].startswith("✗")
    assert "it is Hradec Králové" in lines["no_retrieval"]
    right, asked = ([line for line in ten.splitlines() if line[:1] in marks and line] for marks in ("✓", "✓✗"))
    assert len(asked) == 10
    assert len(right) > 5  # one search bridges two hops, not three
    assert f"{len(right)} of 10 right" in ten
