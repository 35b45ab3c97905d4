"""Reads the options of `hopgraph eval`: variants, questions, shard, simulation, price."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopgraph.cli.options import settings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hopgraph.cli.on_ray import Ray
    from hopgraph.evaluation.costs import Price
    from hopgraph.evaluation.data import Question
    from hopgraph.evaluation.plan import Variant


def read_variants(
    method: str | None,
    ablated: str | None,
    suite: str | None,
    overlays: Sequence[Path],
    settings: list[str],
    index: str | None,
) -> tuple[list[Variant], dict[str, Any]]:
    """The variants that the options name, and the settings given for all of them.

    Raises:
        InputError: The options exclude each other, or one is wrong.
    """
    from hopgraph.evaluation import plan
    from hopgraph.methods import METHODS, check_method
    from inference.errors import InputError

    values = settings_of(settings, index=index)
    if suite is not None:
        if method or overlays or ablated:
            raise InputError(
                "--suite: can't be combined with --method, --overlay or --ablations", hint="a suite sets the methods"
            )
        return plan.suite(suite, values), values
    if ablated is not None:
        if method or overlays:
            raise InputError("--ablations: can't be combined with --method or --overlay", hint="it names the method")
        return plan.ablations(check_method(ablated), values), values
    named = required(method, "--method", "such as prism")
    names = [*METHODS] if named == "all" else [check_method(name.strip()) for name in named.split(",")]
    if overlays:
        if len(names) > 1:
            raise InputError("--overlay: compares prompts of one method", hint="name one --method")
        return plan.overlays(names[0], overlays, values), values
    return plan.plain_variants(names, values), values


def refuse_unused_index(contexts: bool, variants: Sequence[Variant]) -> None:
    """Check that `--contexts` and an index are not given together.

    Raises:
        InputError: They are.
    """
    from inference.errors import InputError

    if contexts and (named := next((v.context.index for v in variants if v.context.index), None)):
        raise InputError(
            f"index: {named} would not be searched: --contexts answers from the questions' own passages",
            hint="omit --index or --contexts",
        )


def sampled_questions(
    path: Path | None, dataset: str, limit: int | None, seed: int | None, stratified: bool
) -> list[Question]:
    """The questions of a file, or the sample of them that the options describe.

    Raises:
        InputError: The file can't be read, or the options don't fit together.
    """
    from hopgraph.evaluation.data import sample
    from hopgraph.evaluation.datasets import read_questions
    from inference.errors import InputError

    if stratified and limit is None:
        raise InputError("--stratify: requires --limit", hint="such as --limit 250")
    asked = read_questions(required(path, "--questions", "a file of questions"), dataset)
    return sample(asked, limit, seed, stratified=stratified)


def simulation_row(perfect: bool, wrong: float, seed: int | None) -> dict[str, Any]:
    """Entries of `run.json` for a simulation."""
    from hopgraph.evaluation.simulated import Simulation
    from inference.errors import InputError

    if wrong and not perfect:
        raise InputError("--wrong: requires --perfect")
    return {"simulation": Simulation(wrong, seed or 0).as_row()} if perfect else {}


def read_price(text: str | None) -> Price | None:
    """The price that `--price` gives.

    Raises:
        InputError: It is malformed.
    """
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


def required(value: Any, name: str, hint: str) -> Any:
    """An option's value.

    Raises:
        InputError: It was not given.
    """
    from inference.errors import InputError

    if value is None:
        raise InputError(f"{name}: is missing", hint=hint)
    return value


def read_shard(text: str | None, questions: Sequence[Question]) -> dict[str, Any]:
    """Entries of `run.json` for `--shard`; none without it.

    Raises:
        InputError: It is malformed, or the shard has no questions.
    """
    from hopgraph.evaluation.shards import Shard
    from inference.errors import InputError

    if text is None:
        return {}
    shard = Shard.parse(text)
    if not shard.part(questions):
        raise InputError(
            f"--shard {shard}: there are only {len(questions)} questions", hint="use at most that many shards"
        )
    return {"shard": shard.as_row()}


def read_ray(address: str | None, workers: int | None, *, shard: str | None, merge: bool) -> Ray | None:
    """The options of a run on Ray; None without `--ray`.

    Raises:
        InputError: They don't fit together.
    """
    from hopgraph.cli.on_ray import Ray
    from inference.errors import InputError

    if address is None:
        if workers is not None:
            raise InputError("--workers: requires --ray")
        return None
    if merge or shard is not None:
        raise InputError(
            f"--ray: can't be combined with {'--merge' if merge else '--shard'}", hint="a run on Ray splits and merges"
        )
    return Ray(address, workers)


def refuse_with(option: str, options: dict[str, Any]) -> None:
    """Check that no option is given beside `--resume` or `--merge` that defines another run.

    Raises:
        InputError: One is.
    """
    from hopgraph.evaluation.identity import MAY_DIFFER
    from inference.errors import InputError

    if given := [name for name, value in options.items() if value not in (None, [], False, 0.0)]:
        raise InputError(
            f"{option}: can't be combined with {given[0]}: all results of a run have the same settings",
            hint=f"start another run for other settings. {MAY_DIFFER}",
        )
