"""Every command of README.md and docs/*.md, run as it is printed there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.installed.blocks import Block
from tests.installed.pages import Page
from tests.installed.places import ROOT, Place

PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
"""In a newcomer's order: what the README has indexed is there for the other pages."""
SECONDS = "seconds of "
"""Begins the name under which a block's seconds are recorded."""
OF_A_CLONE = re.compile(
    r"^\s*make\b|(?<![\w./-])(benchmarks|docs|graphs|hopgraph|notebooks|tests|training)/", re.MULTILINE
)
"""What a block holds that only works in a clone."""


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
