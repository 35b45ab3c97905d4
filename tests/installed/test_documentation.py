"""Every command of README.md and docs/*.md, run as it is printed there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.installed.blocks import Block, read_blocks
from tests.installed.conftest import SECONDS
from tests.installed.pages import Page
from tests.installed.places import ROOT, Place

pytestmark = pytest.mark.installed

PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
"""In a newcomer's order: what the README has indexed is there for the other pages."""
OF_A_CLONE = re.compile(r"^\s*make\b|(?<![\w./-])(benchmarks|docs|graphs|hopgraph|notebooks|tests)/", re.MULTILINE)
"""What a block holds that only works in a clone."""


@pytest.mark.xdist_group("clone")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_runs_in_a_clone(clone, page, tmp_path, record_property):
    # The README says itself how to activate the environment.
    variables = clone.variables if page == "README.md" else clone.activated
    read_page(clone, variables, read_blocks(ROOT / page, page), tmp_path, record_property)


@pytest.mark.xdist_group("wheel")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_runs_with_the_wheel(wheel, page, tmp_path, record_property):
    blocks = [block for block in read_blocks(ROOT / page, page) if not (block.is_run and OF_A_CLONE.search(block.code))]
    read_page(wheel, wheel.activated, blocks, tmp_path, record_property)


def read_page(place: Place, variables: dict[str, str], blocks: list[Block], scratch: Path, record_property) -> None:
    """Run a page, and take away the files that it has left in the place's folder."""
    before = set(place.folder.iterdir())
    page = Page(place.folder, variables, scratch)
    try:
        for block in blocks:
            page.run(block)
    finally:
        try:
            page.close()
        finally:
            for name, seconds in page.seconds:
                record_property(f"{SECONDS}{name}", f"{seconds:.1f}")
            for path in set(place.folder.iterdir()) - before:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
