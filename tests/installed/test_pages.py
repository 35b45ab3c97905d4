"""How the blocks of the documentation are read and run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.installed.blocks import read_blocks
from tests.installed.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture
def blocks(tmp_path):
    """Reads a page given as its text."""

    def read(text):
        (tmp_path / "page.md").write_text(text)
        return read_blocks(tmp_path / "page.md")

    return read


@pytest.fixture
def run(tmp_path, blocks):
    """Runs a page given as its text; gives its folder."""

    def run(text):
        folder, scratch = tmp_path / "a folder", tmp_path / "scratch"
        folder.mkdir()
        scratch.mkdir()
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        page = Page(folder, {"PATH": path, "HOME": str(tmp_path)}, scratch)
        try:
            for block in blocks(text):
                page.run(block)
        finally:
            page.close()
        return folder

    return run


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_block_of_the_documentation_is_run_or_says_why_not(path):
    assert [problem for block in read_blocks(path) for problem in block.problems] == []


def test_blocks_have_their_place_language_code_and_comments(blocks):
    first, second, third = blocks(
        "text\n```sh\nls\n```\n\n<!-- file: a b.txt -->\n```text\nx\n\n  y\n```\n"
        "1. item\n\n   <!-- not run: needs a GPU -->\n   ```python\n   if x:\n       y\n   ```\n"
    )
    assert (first.place, first.language, first.code, first.notes) == ("page.md:2", "sh", "ls\n", {})
    assert (second.code, second.notes, second.is_run) == ("x\n\n  y\n", {"file": "a b.txt"}, False)
    assert (third.code, third.notes, third.is_run) == ("if x:\n    y\n", {"not run": "needs a GPU"}, False)
    assert first.is_run


def test_a_comment_counts_only_right_above_its_block(blocks):
    (block,) = blocks("<!-- not run: here -->\n\n```sh\nls\n```\n")
    assert block.is_run


def test_a_fence_may_show_another(blocks):
    (block,) = blocks("````text\n```sh\nls\n```\n````\n")
    assert block.code == "```sh\nls\n```\n"


def test_an_open_fence_is_a_fault(blocks):
    with pytest.raises(ValueError, match=r"page\.md:1"):
        blocks("```sh\nls\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```\nls\n```\n", "needs a language"),
        ("<!-- not run: -->\n```sh\nls\n```\n", "'not run' needs a value"),
        ("<!-- not tested: x -->\n```sh\nls\n```\n", "unknown comment 'not tested'"),
        ("<!-- not run: x -->\n```text\nls\n```\n", "never run"),
        ("<!-- serves: 80 -->\n```python\nls\n```\n", "only sh blocks serve"),
    ],
)
def test_a_wrong_mark_is_a_fault(blocks, text, problem):
    (block,) = blocks(text)
    (found,) = block.problems
    assert problem in found


def test_shell_blocks_share_folder_and_variables(run):
    folder = run("```sh\nmkdir x; cd x; export A=1; B=2\n```\n```sh\necho $A $B > out\n```\n")
    assert (folder / "x" / "out").read_text() == "1 2\n"


def test_python_blocks_share_names_wait_at_the_top_and_see_the_shell_s_variables(run):
    folder = run(
        "```sh\nexport A=1\n```\n"
        "```python\nimport asyncio, os\nasync def one(): return os.environ['A']\nlock = asyncio.Lock()\n```\n"
        "```python\nasync with lock:\n    x = await one()\n```\n"
        "```python\nprint(asyncio.run(one()) + x, file=open('out', 'w'))\n```\n"
    )
    assert (folder / "out").read_text() == "11\n"


def test_a_file_is_written_before_it_is_used(run):
    folder = run("<!-- file: docs/notes.md -->\n```markdown\n# Ann\n```\n```sh\ncp docs/notes.md copy\n```\n")
    assert (folder / "copy").read_text() == "# Ann\n"


def test_what_is_only_shown_is_not_run(run):
    assert list(run("<!-- not run: x -->\n```sh\ntouch a\n```\n```text\ntouch b\n```\n").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("```sh\necho before\nfalse | cat; ls /nowhere\n```\n", ["page.md:1: failed with exit code 2", "before"]),
        ("```sh\necho $NOT_SET\n```\n", ["page.md:1: failed", "NOT_SET"]),
        ("```sh\nsleep 600 & exit 3\n```\n", ["page.md:1: failed with exit code 3"]),
        ("```python\nx = 1\nx.y\n```\n", ["page.md:1: failed", "line 2", "AttributeError"]),
        ("```python\nimport os; os._exit(4)\n```\n", ["page.md:1: failed with exit code 4"]),
    ],
)
def test_a_failing_block_is_named_with_its_output(run, text, words):
    with pytest.raises(AssertionError) as caught:
        run(text)
    assert [word for word in words if word not in str(caught.value)] == []


SERVER = """<!-- serves: ready +\\d -->
```sh
python -c 'import time
try:
    print("ready 1", flush=True); time.sleep(600)
except KeyboardInterrupt:
    {0}'
```
```sh
touch after
```
"""


def test_a_server_runs_beside_the_rest_of_the_page_and_is_stopped_by_ctrl_c(run):
    folder = run(SERVER.format('open("stopped", "w")'))
    assert {path.name for path in folder.iterdir()} == {"after", "stopped"}


def test_a_page_may_start_several_servers(run):
    folder = run(SERVER.format('open("first", "w")') + SERVER.format('open("second", "w")'))
    assert {path.name for path in folder.iterdir()} == {"after", "first", "second"}


def test_a_server_that_exits_with_an_error_is_a_failure(run):
    with pytest.raises(AssertionError, match="exit code 5 after ctrl-C"):
        run(SERVER.format("raise SystemExit(5)"))


def test_a_server_that_does_not_come_up_is_a_failure(run):
    with pytest.raises(AssertionError, match="ended with exit code 0"):
        run("<!-- serves: 1 -->\n```sh\necho no\n```\n")
