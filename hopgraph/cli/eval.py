"""`hopgraph eval`: put questions to methods and measure what comes of it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hopgraph import loop
from hopgraph.cli import completion
from hopgraph.cli.ask import AsJson, settings_of, use_cache
from hopgraph.cli.errors import print_json
from hopgraph.cli.stopping import stoppable
from hopgraph.evaluation.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hopgraph.evaluation.costs import Price
    from hopgraph.evaluation.data import Question
    from hopgraph.evaluation.folder import RunFolder
    from hopgraph.evaluation.plan import Variant
    from hopgraph.evaluation.runner import Job, Progress
    from hopgraph.evaluation.scoring import Record
    from hopgraph.evaluation.summary import Summary

__all__ = ["evaluate"]


def evaluate(
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            "-m",
            help="Methods with commas between them, or all.",
            show_default=False,
            autocompletion=completion.methods_and_all,
        ),
    ] = None,
    dataset: Annotated[
        str,
        typer.Option(
            help="hotpotqa 2wikimultihopqa musique multihoprag bamboogle nq popqa triviaqa strategyqa squad compound: "
            "their official files, or our JSON Lines. own: JSON Lines, or CSV with columns question and answers."
        ),
    ] = "own",
    questions: Annotated[Path | None, typer.Option("--questions", "-q", help="File of questions.")] = None,
    index: Annotated[
        str | None, typer.Option("--index", "-i", help="Index to search.", autocompletion=completion.indexes)
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many questions.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="With --limit: a random sample instead of the first ones.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The run's folder, made if it is missing.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of all methods; may be repeated.")
    ] = None,
    overlay: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of prompts to compare with the built-in ones; of several, with the first one's."),
    ] = None,
    ablations: Annotated[
        str | None,
        typer.Option(help="A method: it, and it without each of its parts.", autocompletion=completion.methods),
    ] = None,
    suite: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"What a paper measures besides: {', '.join(SUITES)}.")
    ] = None,
    contexts: Annotated[
        bool, typer.Option("--contexts", help="Answer from the passages that come with the questions; no search.")
    ] = False,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder; needs nothing else.")] = None,
    price: Annotated[
        str | None, typer.Option(metavar="IN,OUT", help="Price of a million prompt and completion tokens.")
    ] = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Have a model (HOPGRAPH_JUDGE_MODEL) say of every answer if it is right.")
    ] = False,
    perfect: Annotated[
        bool,
        typer.Option("--perfect", help="Simulation: perfect agents, built from gold decompositions, play the model."),
    ] = False,
    wrong: Annotated[
        float, typer.Option(min=0, max=1, help="With --perfect: probability that an agent's reply is wrong.")
    ] = 0.0,
    cache: Annotated[bool, typer.Option("--cache", help="Reuse model replies of earlier runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put questions to methods: EM, F1, recall and costs. What was finished is never lost; --resume goes on."""
    from hopgraph.evaluation.folder import RunFolder

    if cache:
        use_cache()
    prices = _price(price)
    if resume is not None:
        _refuse_with_resume(
            {"--method": method, "--questions": questions, "--index": index, "--limit": limit, "--seed": seed}
            | {"--out": out, "--set": settings, "--overlay": overlay, "--ablations": ablations, "--suite": suite}
            | {"--contexts": contexts or None, "--perfect": perfect or None, "--wrong": wrong or None}
        )
        folder = RunFolder(resume)
        with _agents(folder.about(), folder.questions(), _index_of(folder.about())):
            variants = loop.run(_resume(folder, again=_again(folder, judge)))
    else:
        chosen, values = _variants(method, ablations, suite, overlay or [], settings or [], index)
        _refuse_unused_index(contexts, chosen)
        asked = _questions(questions, dataset, limit, seed)
        folder = RunFolder(_required(out, "--out", "the run's folder, such as runs/first"))
        about = {"dataset": dataset, "file": str(questions), "limit": limit, "seed": seed, "set": values}
        about |= {"suite": suite} if suite else {}
        about |= _simulated(perfect, wrong, seed)
        with _agents(about, asked, None if contexts else index):
            again = _again(folder, judge)
            variants = loop.run(_run(folder, chosen, asked, about, contexts=contexts, again=again))
    if judge:
        with _agents(folder.about(), folder.questions(), _index_of(folder.about())):
            loop.run(_judge(folder))
    summary = _summary(folder, variants, prices)
    if as_json:
        print_json(summary)
    else:
        from hopgraph.views.table import print_summary

        print_summary(summary)
    spared = ("endpoint", "deadline", "internal")
    if lost := sum(v["failures"].get(kind, 0) for v in summary["variants"] for kind in spared):
        from nodes.kit.rendering import counted

        _note(f"hopgraph: {counted(lost, 'question')} failed through no fault of theirs")
        _note(f"  {_again(folder, judge)} tries them again and nothing else")
        raise typer.Exit(3)


def _variants(
    method: str | None,
    ablated: str | None,
    suite: str | None,
    overlays: Sequence[Path],
    settings: list[str],
    index: str | None,
) -> tuple[list[Variant], dict[str, Any]]:
    from hopgraph.evaluation import plan
    from hopgraph.methods import METHODS, check_method
    from inference.errors import InputError

    values = settings_of(settings, index=index)
    if suite is not None:
        if method or overlays or ablated:
            raise InputError(
                "--suite: takes neither --method nor --overlay nor --ablations", hint="it names the methods itself"
            )
        return plan.suite(suite, values), values
    if ablated is not None:
        if method or overlays:
            raise InputError("--ablations: takes neither --method nor --overlay", hint="it names the method itself")
        return plan.ablations(check_method(ablated), values), values
    named = _required(method, "--method", "such as prism")
    names = [*METHODS] if named == "all" else [check_method(name.strip()) for name in named.split(",")]
    if overlays:
        if len(names) > 1:
            raise InputError("--overlay: compares prompts of one method", hint="name one --method")
        return plan.overlays(names[0], overlays, values), values
    return plan.plain_variants(names, values), values


def _refuse_unused_index(contexts: bool, variants: Sequence[Variant]) -> None:
    from inference.errors import InputError

    if contexts and (named := next((v.context.index for v in variants if v.context.index), None)):
        raise InputError(
            f"index: {named} would not be searched: --contexts answers from the questions' own passages",
            hint="leave out one of --index and --contexts",
        )


def _questions(path: Path | None, dataset: str, limit: int | None, seed: int | None) -> list[Question]:
    from hopgraph.evaluation.data import read_questions, sample

    return sample(read_questions(_required(path, "--questions", "a file of questions"), dataset), limit, seed)


def _simulated(perfect: bool, wrong: float, seed: int | None) -> dict[str, Any]:
    """What `run.json` says of a simulation; nothing where a model answers."""
    from hopgraph.evaluation.simulated import Simulation
    from inference.errors import InputError

    if wrong and not perfect:
        raise InputError("--wrong: goes with --perfect", hint="a model is wrong by itself")
    return {"simulation": Simulation(wrong, seed or 0).as_row()} if perfect else {}


def _index_of(about: dict[str, Any]) -> str | None:
    found = about["identity"]["index"]
    return str(found["name"]) if found else None


@contextmanager
def _agents(about: dict[str, Any], questions: list[Question], index: str | None) -> Iterator[None]:
    """Perfect agents in the place of a model where the run is a simulation; it is said, whatever it costs."""
    from hopgraph.evaluation.simulated import Simulation
    from hopgraph.simulation.playing import playing

    simulation = Simulation.of(about)
    if simulation is None:
        yield
        return
    _note(f"{simulation}")
    with playing(simulation, questions, index):
        yield


def _again(folder: RunFolder, judge: bool) -> str:
    """The command that goes on with a run."""
    return f"`hopgraph eval --resume {folder.path}{' --judge' if judge else ''}`"


async def _run(
    folder: RunFolder,
    variants: list[Variant],
    questions: list[Question],
    about: dict[str, Any],
    *,
    contexts: bool,
    again: str,
) -> list[Variant]:
    from hopgraph.evaluation import runner
    from hopgraph.evaluation.gold import not_in

    found = await runner.check(variants, questions, dataset=about["dataset"], contexts=contexts)
    runner.start(folder, variants, questions, found, about)
    if found["gold"] == "titles" and not contexts and any(question.gold_ids for question in questions):
        _note("none of the questions' gold passages is in the index by its id: they are matched by title")
    if found["index"] and (lost := await asyncio.to_thread(not_in, found["index"]["name"], questions, found["gold"])):
        names = ", ".join(repr(name) for name in lost[:3])
        _note(f"gold that is not in index {found['index']['name']} counts as not found: {len(lost):,}, such as {names}")
    await _work(folder, variants, questions, again=again)
    return variants


async def _resume(folder: RunFolder, *, again: str) -> list[Variant]:
    from hopgraph.evaluation import plan, runner

    about = folder.about()
    variants, questions = plan.restore(about), folder.questions()
    with folder.locked():
        todo = runner.unfinished(folder, variants, questions)
    if todo:
        found = await runner.check(
            variants, questions, dataset=about["dataset"], contexts=about["identity"]["contexts"]
        )
        runner.start(folder, variants, questions, found, {})
        _say_what_differs(about)
    await _work(folder, variants, questions, again=again)
    return variants


async def _work(folder: RunFolder, variants: list[Variant], questions: list[Question], *, again: str) -> None:
    from hopgraph.evaluation import runner

    with folder.locked():
        todo = runner.unfinished(folder, variants, questions, drop=True)
        if not todo:
            return
        done = folder.records()
        _note(f"{len(todo)} to do, {len(done)} done, in {folder.path}; {again} goes on")
        with stoppable(f"{again} goes on"), _progress(todo, done) as show:
            await runner.run_jobs(folder, todo, show)
        _say_calls_in_flight()


def _say_calls_in_flight() -> None:
    """How many calls the run's endpoints were given at a time, at its end."""
    from inference.endpoint import limiters

    for limiter in limiters():
        how = "HOPGRAPH_LLM_CONCURRENCY" if limiter.adaptive is None else "auto"
        _note(f"endpoint: {limiter.limit} calls in flight ({how})")


async def _judge(folder: RunFolder) -> None:
    from hopgraph.cli.progress import progress
    from hopgraph.evaluation.judge import judge_answers

    with folder.locked(), stoppable(f"{_again(folder, judge=True)} goes on"), progress() as shown:
        await judge_answers(folder, lambda done, total: shown.tell("Judging", done, total))


def _summary(folder: RunFolder, variants: list[Variant], price: Price | None) -> Summary:
    from hopgraph.evaluation.simulated import said_of
    from hopgraph.evaluation.summary import summarise

    questions = {question.id: question for question in folder.questions()}
    summary = summarise(folder.records(), questions, [variant.name for variant in variants], price)
    about = folder.about()
    summary["run"] = {"folder": str(folder.path), "id": about["run"], "questions": len(questions)}
    if said := said_of(about):
        summary["run"]["simulation"] = said
    return summary


@contextmanager
def _progress(todo: Sequence[Job], done: Sequence[Record]) -> Iterator[Progress]:
    """Questions, rate, running EM, tokens and time left on stderr."""
    from hopgraph.cli.progress import progress

    total = len(todo) + len(done)
    figures = _Figures([job.variant.name for job in todo])
    for record in done:
        figures.add(record)
    with progress() as shown:
        shown.tell("Evaluating", figures.count, total, figures.text())

        def show(record: Record) -> None:
            figures.add(record)
            shown.tell("Evaluating", figures.count, total, figures.text())

        yield show


class _Figures:
    """Figures while a run goes on, of all its results."""

    def __init__(self, variants: Sequence[str]) -> None:
        self.count = 0
        self._failed = 0
        self._tokens = 0.0
        self._em: dict[str, list[float]] = {name: [] for name in variants}

    def add(self, record: Record) -> None:
        """Count a result."""
        self.count += 1
        self._failed += record["status"] == "failed"
        self._tokens += record["cost"]["tokens"]
        if "em" in record["metrics"]:
            self._em.setdefault(record["variant"], []).append(record["metrics"]["em"])

    def text(self) -> str:
        """All in one line."""
        scores = [f"{name} {100 * sum(values) / len(values):.1f}" for name, values in self._em.items() if values]
        parts = [f"EM {', '.join(scores[:4])}"] if scores else []
        parts += [f"{self._tokens:,.0f} tokens"] if self._tokens else []
        parts += [f"{self._failed} failed"] if self._failed else []
        return ", ".join(parts)


def _price(text: str | None) -> Price | None:
    from hopgraph.evaluation.costs import Price
    from inference.errors import InputError

    if text is None:
        return None
    try:
        prompt, completion = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--price {text!r}: must be two numbers, such as 0.15,0.60") from None
    if not (0 <= prompt < float("inf") and 0 <= completion < float("inf")):
        raise InputError(f"--price {text!r}: must not be negative")
    return Price(prompt=prompt, completion=completion)


def _required(value: Any, name: str, hint: str) -> Any:
    from inference.errors import InputError

    if value is None:
        raise InputError(f"{name}: is missing", hint=hint)
    return value


def _refuse_with_resume(options: dict[str, Any]) -> None:
    from hopgraph.evaluation.runner import MAY_DIFFER
    from inference.errors import InputError

    if given := [name for name, value in options.items() if value not in (None, [])]:
        raise InputError(
            f"--resume: {given[0]} can't be given with it: results of one run are made in one way",
            hint=f"start another run for another way. {MAY_DIFFER}",
        )


def _say_what_differs(about: dict[str, Any]) -> None:
    """Of what may differ when a run goes on, as it was started with and as it is."""
    from hopgraph.evaluation.folder import differences
    from hopgraph.evaluation.plan import surroundings, versions

    if changed := differences(about.get("surroundings") or surroundings(), surroundings()):
        _note(f"differs from when the run started, which is allowed: {'; '.join(changed)}")
    if about["versions"] != (now := versions()):
        other = [name for name in now if about["versions"].get(name) != now[name]]
        _note(f"other versions than when the run started: {', '.join(other)}")


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
