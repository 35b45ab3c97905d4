"""`hopgraph eval`: evaluate methods on questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from hopgraph import loop
from hopgraph.cli import completion
from hopgraph.cli.errors import note, print_json
from hopgraph.cli.options import AsJson, Cached

if TYPE_CHECKING:
    from hopgraph.evaluation.costs import Price
    from hopgraph.evaluation.data import Question
    from hopgraph.evaluation.folder import RunFolder
    from hopgraph.evaluation.plan import Variant
    from hopgraph.evaluation.summary import Summary


class EvalCommand(TyperCommand):
    """The command; its help lists datasets and suites, which are imported only then."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        from hopgraph.evaluation.datasets import DATASETS
        from hopgraph.evaluation.suites import SUITES

        datasets = " ".join(name for name in DATASETS if name != "own")
        for option in self.params:
            if isinstance(option, TyperOption) and option.help:
                option.help = option.help.format(datasets=datasets, suites=", ".join(SUITES))
        super().format_help(ctx, formatter)


def evaluate(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]...", help="With --merge: folders of the shards.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            "-m",
            help="Methods, separated by commas, or all.",
            show_default=False,
            autocompletion=completion.methods_and_all,
        ),
    ] = None,
    dataset: Annotated[
        str,
        typer.Option(
            help="{datasets}: official files, or JSON Lines as for own. "
            "own: JSON Lines, or CSV with columns question and answers."
        ),
    ] = "own",
    questions: Annotated[Path | None, typer.Option("--questions", "-q", help="File of questions.")] = None,
    index: Annotated[
        str | None, typer.Option("--index", "-i", help="Index to search.", autocompletion=completion.indexes)
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of questions.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="With --limit: a random sample instead of the first questions.")
    ] = None,
    stratify: Annotated[
        bool, typer.Option("--stratify", help="With --limit: keep the shares of types and hops.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The run's folder, created if missing.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of all methods; may be repeated.")
    ] = None,
    overlay: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of prompts, compared with the built-in ones, or with the first of several folders."),
    ] = None,
    ablations: Annotated[
        str | None,
        typer.Option(
            help="Compare this method with itself without each of its parts.", autocompletion=completion.methods
        ),
    ] = None,
    suite: Annotated[str | None, typer.Option(metavar="NAME", help="An experiment of a paper: {suites}.")] = None,
    contexts: Annotated[
        bool, typer.Option("--contexts", help="Answer from the questions' own passages; no search.")
    ] = False,
    resume: Annotated[
        Path | None, typer.Option(help="Resume the run in this folder; no other option is needed.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Answer only shard I of N of the questions; run each shard in its own process, then --merge.",
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on a Ray cluster: HOST:PORT of its head, auto, or local."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="With --ray: number of shards. Default: one per CPU of the cluster.")
    ] = None,
    merge: Annotated[bool, typer.Option("--merge", help="Merge the folders of all shards into --out.")] = False,
    price: Annotated[
        str | None, typer.Option(metavar="IN,OUT", help="Price of a million prompt and completion tokens.")
    ] = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Have a model (HOPGRAPH_JUDGE_MODEL) judge whether each answer is correct.")
    ] = False,
    perfect: Annotated[
        bool,
        typer.Option(
            "--perfect", help="Simulation: perfect agents, built from gold decompositions, replace the model."
        ),
    ] = False,
    wrong: Annotated[
        float, typer.Option(min=0, max=1, help="With --perfect: probability that a reply is wrong.")
    ] = 0.0,
    papers: Annotated[
        bool, typer.Option("--papers", help="Print the papers' figures for the dataset next to the results.")
    ] = False,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC=NUMBER", help="Exit code 1 if a mean is worse, such as f1=0.5; may be repeated."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Exit code 1 if EM or F1 is significantly lower than in this earlier run."),
    ] = None,
    max_drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NUMBER", help="With --against: allowed drop, in points; or METRIC=NUMBER, may be repeated."
        ),
    ] = None,
    _: Cached = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate methods on questions: EM, F1, recall and costs. --resume continues an interrupted run."""
    from hopgraph.cli import eval_options, evaluating
    from hopgraph.evaluation.folder import RunFolder
    from hopgraph.evaluation.gate import read_gate
    from hopgraph.evaluation.plan import defaults_of, restore
    from hopgraph.evaluation.shards import own_questions
    from hopgraph.evaluation.simulated import Simulation
    from inference.errors import InputError

    prices = eval_options.read_price(price)
    gate = read_gate(fail_under or [], against, max_drop or [])
    defining: dict[str, Any] = {
        "--method": method,
        "--questions": questions,
        "--index": index,
        "--limit": limit,
        "--seed": seed,
    }
    defining |= {"--stratify": stratify, "--set": settings, "--overlay": overlay, "--ablations": ablations}
    defining |= {"--suite": suite, "--contexts": contexts, "--perfect": perfect, "--wrong": wrong, "--shard": shard}
    if runs and not merge:
        raise InputError(f"{runs[0]}: unexpected argument", hint="--questions names a file, --merge takes folders")
    cluster = eval_options.read_ray(ray, workers, shard=shard, merge=merge)
    if merge or resume is not None:
        eval_options.refuse_with(
            "--merge" if merge else "--resume", {"--resume" if merge else "--out": resume if merge else out, **defining}
        )
        folder = RunFolder(resume or eval_options.required(out, "--out", "the merged run's folder, such as runs/whole"))
        if merge:
            evaluating.merge(folder, runs or [])
        about, asked = folder.about(), folder.questions()
        variants = restore(about)
        evaluating.check_gate(gate, about, variants, asked)
        again = _again(folder, about, judge, ray)
        with evaluating.agents(about, asked, _index_of(about)):
            loop.run(evaluating.resume(folder, variants, asked, about, again=again, ray=cluster))
    else:
        simulation = eval_options.simulation_row(perfect, wrong, seed)
        with defaults_of(Simulation.of(simulation)):
            variants, values = eval_options.read_variants(
                method, ablations, suite, overlay or [], settings or [], index
            )
        eval_options.refuse_unused_index(contexts, variants)
        asked = eval_options.sampled_questions(questions, dataset, limit, seed, stratify)
        folder = RunFolder(eval_options.required(out, "--out", "the run's folder, such as runs/first"))
        about = {"dataset": dataset, "file": str(questions), "limit": limit, "seed": seed, "set": values}
        about |= ({"suite": suite} if suite else {}) | ({"stratified": True} if stratify else {})
        about |= simulation | eval_options.read_shard(shard, asked)
        evaluating.check_gate(gate, about, variants, asked)
        again = _again(folder, about, judge, ray)
        with evaluating.agents(about, asked, None if contexts else index):
            loop.run(evaluating.run(folder, variants, asked, about, contexts=contexts, again=again, ray=cluster))
        about = folder.about()
    if judge:
        with evaluating.agents(about, asked, _index_of(about)):
            loop.run(evaluating.judge(folder, again=again))
    asked = own_questions(about, asked)
    summary = _summary(folder, about, asked, variants, prices)
    if papers:
        summary["papers"] = evaluating.beside_papers(summary, about["dataset"])
    if gate is not None:
        summary["gate"] = gate.check(summary, folder.records(), {question.id: question for question in asked})
    if as_json:
        print_json(summary)
    else:
        from hopgraph.views.table import print_summary

        print_summary(summary)
    external = ("endpoint", "deadline", "internal")
    if lost := sum(v["failures"].get(kind, 0) for v in summary["variants"] for kind in external):
        from nodes.kit.rendering import counted

        note(f"hopgraph: {counted(lost, 'question')} failed for external reasons")
        note(f"  {again} retries only these")
        raise typer.Exit(3)
    if gate is not None and not evaluating.passed(gate, summary["gate"]):
        raise typer.Exit(1)


def _again(folder: RunFolder, about: dict[str, Any], judge: bool, ray: str | None) -> str:
    """The command that resumes a run."""
    if "merged" in about:
        return "`hopgraph eval --resume` of its shards, then `--merge` into a new folder,"
    return f"`hopgraph eval --resume {folder.path}{' --judge' if judge else ''}{f' --ray {ray}' if ray else ''}`"


def _index_of(about: dict[str, Any]) -> str | None:
    found = about["identity"]["index"]
    return str(found["name"]) if found else None


def _summary(
    folder: RunFolder, about: dict[str, Any], questions: list[Question], variants: list[Variant], price: Price | None
) -> Summary:
    from hopgraph.evaluation.shards import Shard
    from hopgraph.evaluation.simulated import said_of
    from hopgraph.evaluation.summary import summarise

    by_id = {question.id: question for question in questions}
    summary = summarise(folder.records(), by_id, [variant.name for variant in variants], price)
    summary["run"] = {"folder": str(folder.path), "id": about["run"], "questions": len(by_id)}
    if said := said_of(about):
        summary["run"]["simulation"] = said
    if shard := Shard.of_run(about):
        summary["run"]["shard"] = str(shard)
    return summary
