"""A clone after `make setup`, in a private folder: the commands of the documentation; offline, read-only; the tests."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.installed.blocks import read_blocks
from tests.installed.documentation import PAGES, read_page
from tests.installed.places import ROOT
from tests.installed.tries import check_names, try_out

pytestmark = pytest.mark.installed

LOOPBACK = """
import fcntl, os, socket, struct, sys
with socket.socket() as probe:  # SIOCSIFFLAGS: IFF_UP | IFF_RUNNING
    fcntl.ioctl(probe, 0x8914, struct.pack("16sH14x", b"lo", 0x41))
if len(open("/proc/net/route").readlines()) > 1:
    sys.exit("there is a network")
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_documentation_runs(clone, page, tmp_path, record_property):
    # The README says itself how to activate the environment.
    variables = clone.variables if page == "README.md" else clone.activated
    read_page(clone, variables, read_blocks(ROOT / page, page), tmp_path, record_property)


def test_what_is_set_up_needs_no_network(clone):
    try_out(clone)
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        pytest.skip("no network namespace of one's own here (unshare --net)")
    try_out(clone, *unshare, clone.bin / "python", "-c", LOOPBACK)
    clone.run(*unshare, clone.bin / "python", "-c", LOOPBACK, clone.bin / "hopgraph", "doctor")


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


@pytest.mark.parametrize("options", [[], ["--config-settings", "editable_mode=compat"]], ids=["editable", "compat"])
def test_a_folder_named_prompts_hides_nothing_from_a_clone(clone, tmp_path, options):
    install = ("python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", *options, "-e", ".")
    clone.run(*install)
    check_names(clone, tmp_path)


def test_the_tests_run_in_a_folder_that_only_its_owner_may_enter(clone):
    clone.run("make", "dev")
    tests = ("tests/stores/test_checkpoints_postgres.py", "tests/hopgraph/test_installation.py")
    clone.run("python", "-m", "pytest", "-q", *tests)
