"""`hopgraph doctor`: checks of the installation, with advice."""

from __future__ import annotations

import asyncio
import errno
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib import metadata
from typing import Annotated, Literal

import typer

from hopgraph.cli.errors import print_json
from hopgraph.cli.probing import Finding, probe

PACKAGES = ("langgraph", "langchain-core", "chromadb", "bm25s", "onnxruntime", "spacy", "xllamacpp")


def doctor(
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Also check each node of a Ray cluster: HOST:PORT, auto or local.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as one JSON object.")] = False,
) -> None:
    """Check the installation and advise. Exits with 1 if something does not work."""
    findings = [finding for check in CHECKS for finding in _run(check)]
    if ray is not None:
        findings += _run(partial(_cluster, ray))
    if as_json:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        _show(findings)
    if any(finding.state == "bad" for finding in findings):
        raise typer.Exit(1)


def _run(check: Callable[[], list[Finding]]) -> list[Finding]:
    """A check's findings; an exception counts as one."""
    from inference.errors import HopgraphError

    name = getattr(check, "func", check).__name__.strip("_").replace("_", " ")
    try:
        return check()
    except HopgraphError as error:
        return [Finding(name, "bad", error.message, error.hint)]
    except Exception as error:
        return [
            Finding(name, "bad", f"{type(error).__name__}: {error}", "reinstall hopgraph; report it if it persists")
        ]


def _show(findings: list[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from hopgraph.views.console import unwrapped

    marks = {"ok": ("works", "green"), "note": ("note", "yellow"), "bad": ("does not work", "red")}
    table = Table("what", "state", "found", box=None)
    for finding in findings:
        found = Text(finding.found)
        if finding.advice:
            found.append(f"\n→ {finding.advice}", style="italic")
        table.add_row(finding.what, Text(*marks[finding.state]), found)
    unwrapped().print(table)


def _packages() -> list[Finding]:
    versions = [f"{name} {metadata.version(name)}" for name in PACKAGES]
    return [Finding("packages", "ok", f"Python {platform.python_version()}; " + ", ".join(versions))]


def _variables() -> list[Finding]:
    from inference.settings import Settings, unknown_variables

    if unknown := unknown_variables():
        return [Finding("variables", "bad", line, "correct its name, or unset it") for line in unknown]
    count = sum(f"HOPGRAPH_{name.upper()}" in map(str.upper, os.environ) for name in Settings.model_fields)
    return [Finding("variables", "ok", f"{count} HOPGRAPH_* set")]


def _home() -> list[Finding]:
    import tempfile

    from inference.settings import get_settings

    home = get_settings().home
    above = next(path for path in (home, *home.absolute().parents) if path.exists())
    try:
        if above != home:  # created by the first command that stores data
            if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return [Finding("home", "ok", f"{home}, does not exist yet: the first index or question creates it")]
        with tempfile.NamedTemporaryFile(dir=home):
            pass
    except OSError as error:
        return [
            Finding(
                "home",
                "bad",
                f"{home} can't be written: {error.strerror}",
                "its indexes can be searched; to write, set HOPGRAPH_HOME to a writable folder",
            )
        ]
    free = shutil.disk_usage(home).free / 2**30
    state: Literal["ok", "note"] = "ok" if free > 1 else "note"
    return [Finding("home", state, f"{home}, {free:.0f} GiB free", "" if free > 1 else "little disk space is left")]


def _endpoint() -> list[Finding]:
    from inference.settings import get_settings

    settings = get_settings()
    return _embedded() if settings.llm_url is None else asyncio.run(probe("llm"))


def _own_endpoints() -> list[Finding]:
    """The servers that roles have of their own."""
    from inference.embedded_model import is_separate
    from inference.settings import Role, get_settings
    from inference.weights import weights_present

    roles: tuple[Role, ...] = ("generator", "synthesizer", "accuracy", "attribution")
    settings = get_settings()
    present = settings.embedded_model != "smollm2" or weights_present()
    own = [role for role in roles if settings.server(role).own or (present and is_separate(settings, role))]
    return [finding for role in own for finding in asyncio.run(probe(role))]


def _reranker() -> list[Finding]:
    """The reranker, if one is configured, by a ranking of two texts."""
    from inference.rerankers.configured import get_reranker
    from inference.settings import get_settings

    settings = get_settings()
    if settings.rerank_url is None and settings.rerank_model is None:
        return []
    scores = get_reranker().rerank("Where is Paris?", ["Bananas are yellow.", "Paris is in France."])
    place = settings.rerank_url or f"folder {settings.rerank_model}"
    if scores.values[1] > scores.values[0]:
        return [Finding("reranker", "ok", f"{scores.model} ({place})")]
    told = f"{scores.model} ({place}) finds a passage about bananas as relevant to Paris as one about Paris"
    return [Finding("reranker", "bad", told, "check that it is a reranking model")]


def _embedded() -> list[Finding]:
    from inference.settings import get_settings
    from inference.weights import weights_present

    if get_settings().embedded_model == "smollm2" and not weights_present():
        return [
            Finding(
                "endpoint",
                "note",
                "HOPGRAPH_LLM_URL is not set: the embedded model is used; its weights (93 MB) are not downloaded yet",
                "the first question or `hopgraph serve --model-only` downloads them",
            )
        ]
    return asyncio.run(probe("llm"))


def _encoder() -> list[Finding]:
    from inference.encoders.configured import get_encoder

    encoder = get_encoder()
    width = encoder.encode_queries(["ok"]).shape[1]
    return [Finding("encoder", "ok", f"{encoder.id}, {width} dimensions")]


def _indexes() -> list[Finding]:
    from inference.errors import StoreError
    from nodes.kit.rendering import counted
    from stores.index import list_indexes, open_index
    from stores.manifest import index_command

    findings = []
    for name in list_indexes():
        try:
            index = open_index(name)
            findings.append(Finding(f"index {name}", "ok", counted(len(index), "passage")))
        except StoreError as error:
            findings.append(Finding(f"index {name}", "bad", error.message, error.hint))
    return findings or [Finding("indexes", "note", "none yet", index_command())]


def _checkpoints() -> list[Finding]:
    from nodes.kit.rendering import counted
    from stores.checkpoint_errors import without_password
    from stores.checkpoints import checkpoint_place, kept_threads, open_checkpoints

    async def count() -> int:
        async with open_checkpoints(read_only=True, patience=0) as saver:
            return (await kept_threads(saver, 1))[1]

    threads = counted(asyncio.run(count()), "thread")
    return [Finding("checkpoints", "ok", f"{without_password(checkpoint_place())}, {threads}")]


def _prompts() -> list[Finding]:
    from inference.settings import get_settings
    from prompts.loader import check_overlay, load_prompt, prompt_names

    names = prompt_names()
    for name in names:
        load_prompt(name)
    folder = get_settings().prompts
    if folder is None:
        return [Finding("prompts", "ok", f"{len(names)}, no overlay folder")]
    rows = check_overlay(folder)
    bad = [problem for _, problem in rows if problem]
    if bad:
        return [Finding("prompts", "bad", "; ".join(bad), "`hopgraph prompts check` after correcting them")]
    return [Finding("prompts", "ok", f"{len(names)}, {len(rows)} of them replaced by {folder}")]


def _cluster(address: str) -> list[Finding]:
    from hopgraph.cluster.connection import connected
    from hopgraph.cluster.nodes import check_nodes

    with connected(address) as cluster:
        findings = [Finding("cluster", "ok", str(cluster))]
        for node in check_nodes():
            findings += [
                Finding(f"node {node.name}", "bad", problem, "all nodes need the same: docs/cluster.md")
                for problem in node.problems
            ]
            if not node.problems:
                findings.append(Finding(f"node {node.name}", "ok", "the same versions, indexes, prompts and model"))
    return findings


def _studio() -> list[Finding]:
    """Whether the requirements of `hopgraph studio` are installed; downloads nothing."""
    import sys
    from importlib.util import find_spec

    from hopgraph.studio.packages import SERVER, packages_folder, pinned_count, unmet
    from inference.settings import get_settings

    path, where = list(sys.path), "this environment"
    if find_spec("langgraph_api") is None:
        folder = packages_folder(get_settings().home.resolve())
        path, where = [str(folder), *path], str(folder)
        if not folder.is_dir():
            missing = f"LangGraph's local server ({pinned_count()} packages, 57 MB) is not installed"
            if find_spec("pip") is None:
                advice = "`python -m ensurepip` adds it; or install hopgraph[studio] in its own environment"
                return [Finding("studio", "note", f"{missing}, and there is no pip to install it", advice)]
            return [Finding("studio", "note", missing, "the first `hopgraph studio` downloads it")]
    if problems := unmet(path):
        advice = f"install the versions of requirements.lock, or delete {where} to have it downloaded again"
        if where == "this environment":
            advice = "install hopgraph[studio] in its own environment"
        return [Finding("studio", "bad", "; ".join(problems), advice)]
    (server, *_) = metadata.distributions(name=SERVER[0], path=path)
    return [Finding("studio", "ok", f"{SERVER[0]} {server.version} with all requirements, in {where}")]


CHECKS = (
    _packages,
    _variables,
    _home,
    _prompts,
    _checkpoints,
    _encoder,
    _indexes,
    _endpoint,
    _own_endpoints,
    _reranker,
    _studio,
)
