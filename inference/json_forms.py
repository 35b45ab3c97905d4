"""Request forms for JSON output: schema, any JSON object with the schema in the prompt, or prompt alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from inference.chat import Message
from inference.http import Refusal

JsonForm = Literal["json_schema", "json_object", "prompt"]
"""From the strongest, which the server enforces, to the weakest."""
SCHEMA_ROOM = 400
"""Maximum tokens of a schema in a prompt."""
_ABOUT_FORMS = re.compile(r"response[_ ]?format|json[_ ]?schema|json[_ ]?object|json[_ ]?mode|structured[_ ]?output")


def described(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """The messages with the schema appended to the last one."""
    text = json.dumps(schema, separators=(",", ":"))
    asked = f"Reply with one JSON object and nothing else. It has to fit this JSON schema:\n{text}"
    return [*messages[:-1], replace(messages[-1], content=f"{messages[-1].content}\n\n{asked}")]


def form_of(body: Mapping[str, Any]) -> JsonForm:
    """The form in which a request asks for JSON."""
    form: JsonForm = body["response_format"]["type"] if "response_format" in body else "prompt"
    return form


def weaker(messages: Sequence[Message], body: Mapping[str, Any]) -> tuple[list[Message], dict[str, Any]]:
    """The same request in the next weaker form."""
    form = body["response_format"]
    rest = {key: value for key, value in body.items() if key != "response_format"}
    if form["type"] == "json_schema":
        messages = described(messages, form["json_schema"]["schema"])
        return list(messages), rest | {"response_format": {"type": "json_object"}}
    return list(messages), rest


def in_form(
    messages: Sequence[Message], body: Mapping[str, Any], form: JsonForm
) -> tuple[Sequence[Message], dict[str, Any]]:
    """The request in a form that the server supports; plain-text requests are unchanged."""
    while "response_format" in body and form_of(body) != form:
        messages, body = weaker(messages, body)
    return messages, dict(body)


def refuses_form(error: BaseException, body: Mapping[str, Any]) -> bool:
    """Whether a server refused the JSON form of a request."""
    if "response_format" not in body or not isinstance(error, Refusal):
        return False
    return error.status in (400, 422, 501) and _ABOUT_FORMS.search(str(error.detail).lower()) is not None
