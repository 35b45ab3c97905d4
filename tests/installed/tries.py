"""What is tried in several places."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from hopgraph.installation import PACKAGES
from tests.installed.places import Place

DOCUMENT = '{"id": "film", "title": "The Silent Harbour", "text": "The Silent Harbour is a film by Ann Lee."}\n'
ASK = ("ask", "Who made The Silent Harbour?", "--method", "standard_rag", "--index", "own", "--set", "max_tokens=96")


def try_out(place: Place, *before: str | Path, folder: Path | None = None, **variables: str) -> None:
    """Index a document and ask a question of it with the embedded model."""
    document = place.home / "own.jsonl"
    document.write_text(DOCUMENT)
    if "user" in place.options:
        shutil.chown(document, place.options["user"])
    hopgraph = (*before, place.bin / "hopgraph")
    place.run(*hopgraph, "index", document, "--name", "own", folder=folder, **variables)
    assert "Silent Harbour" in place.run(*hopgraph, *ASK, folder=folder, **variables)


def check_names(place: Place, folder: Path) -> None:
    """Folders with our names are harmless, and a package with one of our names is said to be in the way."""
    for name in ("hopgraph", *PACKAGES):
        (folder / name).mkdir()
        (folder / name / "selector.md").write_text("Mine.")
    program = f"import hopgraph, {', '.join(PACKAGES)}; print(hopgraph.load('prism').name)"
    assert place.python(program, folder=folder) == "prism\n"
    (folder / "prompts" / "__init__.py").touch()
    done = subprocess.run(
        [place.bin / "python", "-c", program], cwd=folder, env=place.activated, capture_output=True, text=True
    )
    assert f"'prompts' comes from {folder / 'prompts'}. Rename that folder" in done.stderr
