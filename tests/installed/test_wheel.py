"""The wheel, installed by pip in a private folder: its files, every command of the documentation, the demo."""

from __future__ import annotations

import zipfile

import pytest

from hopgraph.installation import PACKAGES
from tests.installed.blocks import read_blocks
from tests.installed.documentation import OF_A_CLONE, PAGES, read_page
from tests.installed.places import ROOT
from tests.installed.tries import check_names

pytestmark = pytest.mark.installed


def test_the_wheel_holds_every_file_of_the_packages(wheel_file):
    held = {name for name in zipfile.ZipFile(wheel_file).namelist() if ".dist-info/" not in name}
    ours = {
        path.relative_to(ROOT).as_posix()
        for name in ("hopgraph", *PACKAGES)
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    assert held == ours


def test_a_folder_named_prompts_hides_nothing_from_the_wheel(wheel, tmp_path):
    check_names(wheel, tmp_path)


def test_the_demo_runs_from_the_wheel(wheel):
    said = wheel.python(
        "import hopgraph.demo as demo; demo.METHODS = ['no_retrieval', 'compactrag']; demo.main()", limit=900
    )
    assert "The same question, every method. The answer is Hradec Králové." in said
    assert "of 10 right" in said


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_documentation_runs(wheel, page, tmp_path, record_property):
    blocks = [block for block in read_blocks(ROOT / page, page) if not (block.is_run and OF_A_CLONE.search(block.code))]
    read_page(wheel, wheel.activated, blocks, tmp_path, record_property)
