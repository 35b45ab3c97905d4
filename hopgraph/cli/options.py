"""Options shared by several commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def _use_cache(context: typer.Context, wanted: bool) -> bool:
    """Enable the reply cache for the duration of the command."""
    if wanted:
        from inference.settings import overridden

        context.with_resource(overridden(cache="on"))
    return wanted


Cached = Annotated[bool, typer.Option("--cache", help="Reuse model replies of earlier runs.", callback=_use_cache)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


def settings_of(pairs: list[str], **options: Any) -> dict[str, Any]:
    """Settings from `KEY=VALUE` pairs; values are parsed as JSON if possible, else taken as text.

    Args:
        pairs: The pairs given.
        options: Settings with a dedicated option; None if it was not given.

    Raises:
        InputError: A pair is malformed, or a setting is given twice.
    """
    from hopgraph.contexts import from_text
    from inference.errors import InputError

    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--set {pair!r}: must be KEY=VALUE")
        if key.strip() in values:
            raise InputError(f"--set {key.strip()}: given twice", hint="omit one of them")
        values[key.strip()] = from_text(value)
    given = {key: value for key, value in options.items() if value is not None}
    if twice := sorted(given.keys() & values.keys()):
        raise InputError(f"{twice[0]}: given by --{twice[0].replace('_', '-')} and by --set", hint="omit one of them")
    return values | given
