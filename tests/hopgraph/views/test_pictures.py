"""A method's own picture is found by its name, and drawn when there is something to draw."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from hopgraph.methods import METHODS, make_context
from hopgraph.views import pictures

FOLDER = Path(pictures.__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("method", NAMES)
def test_a_picture_is_of_a_method_has_a_template_and_waits_for_the_state_it_draws(method):
    assert method in METHODS
    assert (FOLDER / f"{method}.html").is_file()
    assert import_module(f"hopgraph.views.pictures.{method}").picture({}, make_context(method, {})) is None


def test_no_view_names_a_method():
    views = [path for path in FOLDER.parent.glob("*.*") if path.suffix in (".py", ".html")]
    assert len(views) > 10
    assert [(path.name, name) for path in views for name in METHODS if f'"{name}"' in path.read_text("utf-8")] == []
