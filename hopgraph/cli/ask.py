"""`hopgraph ask` and `hopgraph resume`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hopgraph import loop
from hopgraph.cli import completion
from hopgraph.cli.checks import check_endpoint
from hopgraph.cli.errors import note, print_json
from hopgraph.cli.options import AsJson, Cached, settings_of
from hopgraph.cli.stopping import resumable

if TYPE_CHECKING:
    from hopgraph.results import Result
    from nodes.kit.context import Context
    from nodes.kit.events import Event
    from nodes.kit.state import RunError

Show = Literal["nothing", "status", "lines", "json"]
Stream = Annotated[
    bool, typer.Option("--stream", help="Show events as they happen, on standard error; with --json as JSON.")
]


def ask(
    question: Annotated[str | None, typer.Argument(help="The question.", show_default=False)] = None,
    method: Annotated[
        str,
        typer.Option("--method", "-m", help="Method; `hopgraph graph` lists them.", autocompletion=completion.methods),
    ] = "prism",
    index: Annotated[
        str | None, typer.Option("--index", "-i", help="Index to search.", autocompletion=completion.indexes)
    ] = None,
    contexts: Annotated[
        Path | None, typer.Option(help="Answer from the passages of this JSON Lines file instead of searching.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Search only passages whose metadata meet this filter; see `hopgraph search`.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the method; may be repeated.")
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option(
            help="Id of the run. An interrupted run is resumed, a finished one is shown. Default: a new id.",
            autocompletion=completion.threads,
        ),
    ] = None,
    cite: Annotated[
        bool, typer.Option("--cite", help="Print only the answer and its numbered sources, with pages.")
    ] = False,
    _: Cached = False,
    stream: Stream = False,
    as_json: AsJson = False,
) -> None:
    """Answer a question."""
    values = settings_of(settings or [], index=index, where=where)
    _finish(*loop.run(_ask(question, method, values, contexts, thread, _shown(stream, as_json))), as_json, cite=cite)


def resume(
    thread: Annotated[str, typer.Argument(help="Id of the run.", autocompletion=completion.threads)],
    decision: Annotated[
        list[str] | None,
        typer.Option(metavar="[ID=]WORD", help="Your decision, if the run waits for one; ID=WORD if for several."),
    ] = None,
    answer: Annotated[str | None, typer.Option(help="Your own answer, with --decision accept.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change how the model is called: model, max_tokens, deadlines, ...; may be repeated.",
        ),
    ] = None,
    stream: Stream = False,
    as_json: AsJson = False,
) -> None:
    """Resume a run that was interrupted or waits for a decision; a finished one is shown, not run again."""
    changes = settings_of(settings or [])
    _finish(*loop.run(_resume(thread, decision or [], answer, changes, _shown(stream, as_json))), as_json)


async def _ask(
    question: str | None,
    method: str,
    values: dict[str, Any],
    contexts: Path | None,
    thread: str | None,
    show: Show,
) -> tuple[Result, str | None]:
    """The result, and the index searched."""
    from hopgraph.methods import make_context
    from hopgraph.origins import check_thread, config_of, new_thread
    from hopgraph.run import Run
    from inference.errors import InputError
    from stores.checkpoints import open_checkpoints

    async with open_checkpoints() as saver:
        if thread is not None and await saver.aget_tuple(config_of(check_thread(thread))) is not None:
            return await _resume_thread(thread, question, saver, show, changes=values)
        if question is None:
            raise InputError("question is missing", hint='hopgraph ask "..." --index NAME')
        context = make_context(method, values)
        given = _read_contexts(contexts) if contexts is not None else None
        run = Run.of(question, context, saver, thread=thread or new_thread(context), contexts=given)
        _check_run(context, given)
        await check_endpoint(context.model, context.generator_model)
        # After all checks: from here only the run itself can fail.
        note(f"thread {run.thread.id}")
        async with resumable(run.thread.id, saver):
            with _progress(show) as on_event:
                result = await run.start(on_event=on_event)
            return await _complete(result, saver, show), context.index


def _check_run(context: Context, given: list[dict[str, Any]] | None) -> None:
    """Check a run, and say so if its knowledge base is not complete."""
    from hopgraph.checks import check_run

    known = check_run(context, given).get("knowledge")
    if known and known["read"] < known["passages"]:
        note(
            f"the knowledge base has {known['read']:,} of {known['passages']:,} passages: `hopgraph read` adds the rest"
        )


async def _resume(
    thread: str, decisions: list[str], answer: str | None, changes: dict[str, Any], show: Show
) -> tuple[Result, str | None]:
    from stores.checkpoints import open_checkpoints

    async with open_checkpoints() as saver:
        return await _resume_thread(thread, None, saver, show, decisions, answer, changes)


async def _resume_thread(
    thread: str,
    question: str | None,
    saver: Any,
    show: Show,
    decisions: list[str] | None = None,
    answer: str | None = None,
    changes: dict[str, Any] | None = None,
) -> tuple[Result, str | None]:
    from hopgraph.cli.review import read_decisions
    from hopgraph.run import resume
    from hopgraph.threads import changed, read_thread
    from inference.errors import InputError

    found = await read_thread(thread, saver)
    if question is not None and question.strip() != found.question:
        raise InputError(
            f"thread {thread} belongs to another question: {found.question[:200]!r}",
            hint="omit --thread to start a new run",
        )
    decided = read_decisions(decisions or [], answer, found.waiting)
    found = changed(found, changes or {})
    if not found.finished:
        await check_endpoint(found.context.model, found.context.generator_model)
    async with resumable(thread, saver):
        with _progress("nothing" if found.finished else show) as on_event:
            result = await resume(thread, saver, on_event=on_event, decisions=decided, changes=changes)
        return await _complete(result, saver, show), found.context.index


async def _complete(result: Result, saver: Any, show: Show) -> Result:
    """The result after all decisions at the terminal; JSON output includes the evidence's texts."""
    result = await _decided(result, saver, show)
    if show in ("nothing", "json"):
        from hopgraph.threads import evidence_passages, read_thread

        result["passages"] = await evidence_passages(await read_thread(result["thread"], saver), saver)
    return result


async def _decided(result: Result, saver: Any, show: Show) -> Result:
    """The result after all decisions at the terminal; unchanged without a terminal."""
    from hopgraph.cli.review import ask_at_terminal
    from hopgraph.run import resume

    while result.get("waiting") and show in ("status", "lines") and sys.stdin.isatty():
        decisions = ask_at_terminal(result["waiting"])
        with _progress(show) as on_event:
            result = await resume(result["thread"], saver, on_event=on_event, decisions=decisions)
    return result


def _read_contexts(path: Path) -> list[dict[str, Any]]:
    from stores.passages import read_passages

    passages = list(read_passages(path))
    return [{"title": p.title, "text": p.text, "sentences": list(p.sentences)} for p in passages]


def _shown(stream: bool, as_json: bool) -> Show:
    """How to show progress, on standard error."""
    if stream:
        return "json" if as_json else "lines"
    return "nothing" if as_json else "status"


@contextmanager
def _progress(show: Show) -> Iterator[Callable[[Event], None] | None]:
    """Show events: in one updated line, in a line each, or as a JSON object each."""
    if show == "nothing":
        yield None
    elif show == "json":
        yield lambda event: note(json.dumps(event, ensure_ascii=False))
    elif show == "lines":
        from hopgraph.views.terminal import event_line

        yield lambda event: note(event_line(event))
    else:
        from rich.console import Console
        from rich.text import Text

        with Console(stderr=True).status("starting") as status:

            def on_event(event: Event) -> None:
                if event["type"] == "step":
                    step = event["step"]
                    words = (step["answer"] or step["verdict"]).splitlines()
                    status.update(Text(f"{step['node']}: {words[0] if words else ''}"[:100]))

            yield on_event


def _finish(result: Result, index: str | None, as_json: bool, *, cite: bool = False) -> None:
    """Print the result and exit with the code of its status."""
    if as_json:
        print_json(result)
    elif cite and result["status"] != "failed":
        from hopgraph.server.answers import Answer, sources_of

        typer.echo(Answer(result, sources_of(result, index)).cited)
    else:
        from hopgraph.views.terminal import print_result

        print_result(result, index)
    if result["status"] == "failed":
        error = result["error"]
        if waiting := result.get("waiting"):
            from hopgraph.cli.review import how_to_decide

            note(how_to_decide(result["thread"], waiting))
            raise typer.Exit(4)
        note(f"hopgraph: the run failed in {error['node'] or 'its first step'}: {error['message']}")
        if error["kind"] != "model_output":
            note(f"  {_how_to_resume(result['thread'], error)}")
        raise typer.Exit(1 if error["kind"] == "model_output" else 3)


def _how_to_resume(thread: str, error: RunError) -> str:
    """What to do after a failure other than bad model output; permanent errors have to be fixed first."""
    command = f"resume with `hopgraph resume {thread}`"
    hint = error.get("hint", "")
    if error.get("permanent"):
        return f"first: {hint or 'fix this'}; then {command}"
    return f"nothing is lost: {command}" + (f"; {hint}" if hint else "")
