"""Options that several commands have."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

__all__ = ["AsJson", "Cached", "settings_of"]


def _use_cache(context: typer.Context, wanted: bool) -> bool:
    """Have model replies of earlier runs reused while the command runs."""
    if wanted:
        from inference.settings import overridden

        context.with_resource(overridden(cache="on"))
    return wanted


Cached = Annotated[bool, typer.Option("--cache", help="Reuse model replies of earlier runs.", callback=_use_cache)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


def settings_of(pairs: list[str], **options: Any) -> dict[str, Any]:
    """`KEY=VALUE` pairs; a value that is JSON is read as such, anything else is text.

    Args:
        pairs: As they were given.
        options: Settings that have an option of their own; None where it was not given.

    Raises:
        InputError: A pair is none, or gives what another pair or an option of its own gives.
    """
    from inference.errors import InputError

    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--set {pair!r}: must be KEY=VALUE")
        if key.strip() in values:
            raise InputError(f"--set {key.strip()}: given twice", hint="leave one of them out")
        try:
            values[key.strip()] = json.loads(value)
        except ValueError:
            values[key.strip()] = value
    given = {key: value for key, value in options.items() if value is not None}
    if twice := sorted(given.keys() & values.keys()):
        raise InputError(
            f"{twice[0]}: given by --{twice[0].replace('_', '-')} and by --set", hint="leave one of them out"
        )
    return values | given
