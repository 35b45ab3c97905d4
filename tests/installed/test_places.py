"""Other people, other rights, other ways: another user, no network, a read-only checkout, folders with our names."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hopgraph.installation import ROOMS
from tests.installed.places import ROOT, Place, copy_tree, give, make_place, private_folder, python_for

pytestmark = pytest.mark.installed

DOCUMENT = '{"id": "film", "title": "The Silent Harbour", "text": "The Silent Harbour is a film by Ann Lee."}\n'
ASK = ("ask", "Who made The Silent Harbour?", "--method", "standard_rag", "--index", "own", "--set", "max_tokens=96")
LOOPBACK = """
import fcntl, os, socket, struct, sys
with socket.socket() as probe:  # SIOCSIFFLAGS: IFF_UP | IFF_RUNNING
    fcntl.ioctl(probe, 0x8914, struct.pack("16sH14x", b"lo", 0x41))
try:
    socket.create_connection(("1.1.1.1", 443), 5)
except OSError:
    os.execvp(sys.argv[1], sys.argv[1:])
sys.exit("there is a network")
"""


def try_out(place: Place, *before: str | Path, folder: Path | None = None, **variables: str) -> None:
    """Index a document and ask a question of it with the embedded model."""
    document = place.home / "own.jsonl"
    document.write_text(DOCUMENT)
    if "user" in place.options:
        shutil.chown(document, place.options["user"])
    hopgraph = (*before, place.bin / "hopgraph")
    place.run(*hopgraph, "index", document, "--name", "own", folder=folder, **variables)
    assert "Silent Harbour" in place.run(*hopgraph, *ASK, folder=folder, **variables)


@pytest.fixture
def other() -> Iterator[Place]:
    """A clone in a folder of another user's, before any command."""
    if os.geteuid() != 0:
        pytest.skip("only root may become another user; the other tests run as one who is not root")
    folder = private_folder("nobody")
    try:
        place = make_place(folder, "nobody")
        copy_tree(place.folder)
        give(place)
        yield place
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.xdist_group("other")
def test_another_user_sets_up_asks_and_tests(other):
    python = python_for(other)
    if python is None:
        pytest.skip("no Python 3.11 that another user can run")
    other.run("make", "setup", f"PYTHON={python}")
    try_out(other)
    other.run("make", "dev", f"PYTHON={python}")
    other.run("python", "-m", "pytest", "-q", "tests/stores/test_checkpoints_postgres.py", "tests/hopgraph/test_cli.py")


@pytest.mark.xdist_group("clone")
def test_what_is_set_up_needs_no_network(clone):
    try_out(clone)
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        pytest.skip("no network namespace of one's own here (unshare --net)")
    try_out(clone, *unshare, clone.bin / "python", "-c", LOOPBACK)
    clone.run(*unshare, clone.bin / "python", "-c", LOOPBACK, clone.bin / "hopgraph", "doctor")


@pytest.mark.xdist_group("clone")
def test_a_checkout_may_be_read_only(clone, tmp_path):
    if os.geteuid() == 0:
        mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" && ! touch here 2> /dev/null'
        before = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"']
        if subprocess.run([*before, clone.folder, "true"], capture_output=True).returncode != 0:
            pytest.skip("nothing can be mounted here (unshare --mount)")
        try_out(clone, *before, clone.folder, HOPGRAPH_HOME=str(tmp_path / "home"))
        return
    paths = [clone.folder, *(path for path in clone.folder.rglob("*") if not path.is_symlink())]
    modes = {path: path.stat().st_mode for path in paths}
    try:
        for path in paths:
            path.chmod(modes[path] & ~0o222)
        try_out(clone, HOPGRAPH_HOME=str(tmp_path / "home"))
    finally:
        for path in paths:
            path.chmod(modes[path])


@pytest.mark.xdist_group("clone")
@pytest.mark.parametrize("options", [[], ["--config-settings", "editable_mode=compat"]], ids=["editable", "compat"])
def test_a_folder_named_prompts_hides_nothing_from_a_clone(clone, tmp_path, options):
    install = ("python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", *options, "-e", ".")
    clone.run(*install)
    check_names(clone, tmp_path)


@pytest.mark.xdist_group("wheel")
def test_a_folder_named_prompts_hides_nothing_from_the_wheel(wheel, tmp_path):
    check_names(wheel, tmp_path)


def check_names(place: Place, folder: Path) -> None:
    """Folders with our names are harmless, and a package with one of our names is said to be in the way."""
    for name in ("hopgraph", *ROOMS):
        (folder / name).mkdir()
        (folder / name / "selector.md").write_text("Mine.")
    program = f"import hopgraph, {', '.join(ROOMS)}; print(hopgraph.load('prism').name)"
    assert place.python(program, folder=folder) == "prism\n"
    (folder / "prompts" / "__init__.py").touch()
    done = subprocess.run(
        [place.bin / "python", "-c", program], cwd=folder, env=place.activated, capture_output=True, text=True
    )
    assert f"'prompts' comes from {folder / 'prompts'}. Rename that folder" in done.stderr


@pytest.mark.xdist_group("wheel")
def test_the_wheel_holds_every_file_of_the_packages(wheel_file):
    held = {name for name in zipfile.ZipFile(wheel_file).namelist() if ".dist-info/" not in name}
    ours = {
        path.relative_to(ROOT).as_posix()
        for name in ("hopgraph", *ROOMS)
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    assert held == ours


@pytest.mark.xdist_group("wheel")
def test_the_demo_runs_from_the_wheel(wheel):
    said = wheel.python(
        "import hopgraph.demo as demo; demo.METHODS = ['no_retrieval', 'compactrag']; demo.main()", limit=900
    )
    assert "gold answer" in said


@pytest.mark.xdist_group("private")
def test_the_tests_run_in_a_folder_that_only_its_owner_may_enter(tmp_path_factory):
    folder = private_folder()
    try:
        place = make_place(folder)
        copy_tree(place.folder)
        place.run("make", "dev")
        tests = ("tests/stores/test_checkpoints_postgres.py", "tests/hopgraph/test_installation.py")
        place.run("python", "-m", "pytest", "-q", *tests)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
