"""What graph files say of their methods, read without importing them."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from graphs.about import About, read_about, read_abouts
from hopgraph.methods import ABOUTS, METHODS, READERS
from inference.errors import InputError

GOOD = """ABOUT = About(
    name="Mine",
    summary="a " "test",
    citation="Lee, A Test",
    published="2025-03",
    kind="method",
)
"""


def written(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize("method", ABOUTS)
def test_what_is_read_is_what_python_imports(method):
    assert ABOUTS[method] == import_module(f"graphs.{method}").ABOUT


def test_the_simplest_baselines_come_first_and_readers_are_no_methods():
    assert list(METHODS)[:2] == ["no_retrieval", "standard_rag"]
    assert list(READERS) == ["compactrag_reader"]
    assert METHODS["no_retrieval"] == "the model alone, without a search"
    assert METHODS["prism"] == "PRISM: precision and recall in a loop over evidence sentences"


def test_a_new_file_is_a_method_in_its_place(tmp_path):
    written(tmp_path / "b.py", GOOD)
    written(tmp_path / "a.py", GOOD.replace("2025-03", "2025-04"))
    written(tmp_path / "c.py", GOOD.replace('"method"', '"baseline"').replace("2025-03", "2025-12"))
    written(tmp_path / "d.py", GOOD.replace('"method"', '"reader"').replace("2025-03", "2020-01"))
    written(tmp_path / "__init__.py", "")
    found = read_abouts(tmp_path)
    assert list(found) == ["c", "b", "a", "d"]
    assert found["b"] == About("Mine", "a test", "Lee, A Test", "2025-03", "method")
    assert found["b"].line == "Mine: a test"


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("ABOUT =", "OTHER =", 1, "ABOUT is missing"),
        ("About(", "dict(", 1, "ABOUT must be About"),
        ("About(\n", "About('Mine',\n", 1, "ABOUT must be About"),
        ('    kind="method",\n', "", 1, "ABOUT: kind is missing"),
        ("summary=", "sumary=", 3, "ABOUT: no such field: sumary"),
        ('"Lee, A Test"', "str(1)", 4, "ABOUT: citation must be text, and a literal"),
        ('"Mine"', '" "', 2, "ABOUT: name is empty"),
        ('"Mine"', '"Mi\\nne"', 2, "ABOUT: name must be one line"),
        ("2025-03", "2025-13", 5, "ABOUT: published must be year and month, such as 2026-01, not '2025-13'"),
        ('"method"', '"metod"', 6, "ABOUT: kind must be one of baseline, method, reader, not 'metod'"),
        ("ABOUT =", "ABOUT = =", 1, "is not Python"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path, old, new, line, problem):
    assert old in GOOD
    path = written(tmp_path / "mine.py", GOOD.replace(old, new))
    with pytest.raises(InputError) as refused:
        read_about(path)
    assert str(refused.value).startswith(f"{path}, line {line}: {problem}")


def test_listing_the_methods_imports_no_langgraph():
    code = "import sys; from hopgraph import METHODS; print(len(METHODS), 'langgraph' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == [str(len(METHODS)), "False"], done.stderr
