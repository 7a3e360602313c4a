"""Write ``docs/api.md``: every route with an example request, its response and error codes.

Run it with ``python -m evaluation_pipelines_tests.docs.api``.
"""

import json
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import Any

from evaluation_pipelines_tests.docs.documents import FOLDER
from evaluation_pipelines_tests.service.answers import judging
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.examples import EXAMPLES, Example, routes_of

PAGE = FOLDER / "api.md"

_SHOWN_FIELDS = (6, 3, 2)
"""Of an object, of one in it, and of one in that."""
_SHOWN_CHARACTERS = 40
_WIDTH = 130
_WITHOUT_ANSWER = {
    *("GET /health", "GET /ready", "POST /v1/logs", "POST /v1/traces", "POST /v1/metrics"),
    "POST /v1/transcripts",
    *("GET /api/v1/alerts", "GET /api/v1/profiles", "GET /api/v1/tools/{session}"),
    *("GET /api/v1/sessions/{session}/transcript", "GET /api/v1/books/{session_date}"),
    *("GET /api/v1/scorecards", "GET /api/v1/scoring/sessions/{session_id}/score"),
    *("GET /api/v1/sessions/{session}", "GET /api/v1/comparison", "GET /v1/reputation/{agent_id}"),
}
"""Routes with nothing to see in their answer, or a list like those that are shown."""
_AS_ELSEWHERE = ("judges.list", "judges.set", "tool_report", "model_comparison")
"""Methods of the gateway that answer what a route does, in camel case."""
_FIXED = {
    "score_id": "0d5b2c1e-7a41-4a39-9a4e-5d1f6a523c0e",
    "built_at": "2026-12-01T00:00:07Z",
    "next_cursor": "WyJ...",
}
"""What differs each time: the page always has these."""

_USUAL = {
    "404": "there is none, or it belongs to another organization",
    "503": "the ledger or the lake cannot be used at the moment",
}
"""Errors of most routes: the page tells them once."""

_HEAD = f"""# API

Every route of `evaluation-pipelines serve`, with an example, generated from the service.
`/openapi.json` has all fields and parameters, `/api` shows them as a page.

* Keys: header `Authorization: Bearer KEY`, with a [role](service.md#keys). An organization's key
  sees that one only.
* Errors are `{{{{"error": {{{{"code", "message", "help"}}}}}}}}`. Every route: 400 invalid, 401 no
  accepted key, 403 role not sufficient, 429 with `Retry-After` for [too many
  requests](service.md#limits). Bodies: 408 slow, 413 large. Unless a route says otherwise,
  404: {_USUAL["404"]},
  503: {_USUAL["503"]}. `GET` routes also answer `HEAD`.
* Times are RFC 3339 in UTC, or microseconds since 1970 if the name ends in `_us`. Unknown is null.
* Lists are pages: pass `next_cursor` as `cursor` until it is null.
* A session is named by its key (`#` is `%23` in a path, `/` is `%2F`), or by its id if it has one
  window. An ambiguous id is 400, and `help` lists the candidates.
* Events: [WebSocket](service.md#events). `...`: further fields, rows and characters.

| route | role | |
|---|---|---|
{{plain}}
"""


def api_markdown() -> str:
    with TemporaryDirectory() as folder, judging(Path(folder)) as service:
        operations = routes_of(service.app.openapi())
        plain, sections = list[str](), list[str]()
        for route, found in groupby(EXAMPLES, key=lambda example: example.route):
            examples = list(found)
            answers = [
                shown for shown in (_example(service, example) for example in examples) if shown
            ]
            meaning = f"{_plain(operations[route]['description'])}{_errors(operations[route])}"
            if answers:
                text = fill(f"{_role(examples[0])}: {meaning}", 120, break_on_hyphens=False)
                sections += [f"## {route}\n\n{text}\n", *answers]
            else:
                signal = route.rpartition("/")[2]
                if any(meaning.replace(signal, "logs") in line for line in plain):
                    meaning = f"The same for {signal}."
                plain.append(f"| `{route}` | {_role(examples[0])} | {meaning} |")
    return "\n".join([_HEAD.format(plain="\n".join(plain)), *sections])


def _errors(operation: dict[str, Any]) -> str:
    common = {"200", "202", "400", "401", "403", "408", "413", "429"}
    found = {
        status: response["description"]
        for status, response in operation["responses"].items()
        if status not in common and response["description"] != _USUAL.get(status)
    }
    return "".join(f" {status}: {meaning}." for status, meaning in sorted(found.items()))


def _example(service: Service, example: Example) -> str:
    """Return a request and its answer; nothing for an answer without content."""
    response = example.send(service.client())
    assert response.status_code in {200, 202}, (example, response.text)
    is_json = response.headers["content-type"].startswith("application/json")
    if not is_json or example.route in _WITHOUT_ANSWER:
        return ""
    method = example.route.partition(" ")[0]
    sent = "" if example.body is None else f"  {json.dumps(example.body)}"
    answer = f"\n\n{_json(_shortened(response.json()))}"
    if f"{example.body}".partition("evaluation.")[2].startswith(_AS_ELSEWHERE):
        answer = ""
    return f"```text\n{method} {example.url}{sent}{answer}\n```\n"


def _role(example: Example) -> str:
    if example.role is None:
        return "no key"
    return f"`{example.role}`{', all organizations' if example.of_all else ''}"


def _shortened(value: Any, depth: int = 0) -> Any:
    """Return JSON with the first fields of objects, rows of lists and characters of texts."""
    match value:
        case dict() if depth == len(_SHOWN_FIELDS):
            return "..."
        case dict():
            shown = dict(list(value.items())[: _SHOWN_FIELDS[depth]])
            more = {"...": "..."} if len(value) > len(shown) else {}
            shown |= {name: fixed for name, fixed in _FIXED.items() if shown.get(name)}
            return {name: _shortened(value, depth + 1) for name, value in shown.items()} | more
        case list() if len(value) > 1 and not isinstance(value[0], str):
            return [_shortened(value[0], depth), "..."]
        case list():
            return [_shortened(item, depth) for item in value]
        case str() if len(value) > _SHOWN_CHARACTERS:
            return f"{value[:_SHOWN_CHARACTERS]}..."
    return value


def _json(value: Any, indent: int = 0) -> str:
    """Return JSON with as many fields on a line as fit."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= _WIDTH or not isinstance(value, (dict, list)):
        return flat
    pad = " " * (indent + 2)
    if isinstance(value, list):
        return "[" + ", ".join(_json(item, indent + 1) for item in value) + "]"
    lines = [""]
    for name, item in value.items():
        field = f"{json.dumps(name)}: {_json(item, indent + 2)}, "
        if lines[-1] and len(lines[-1]) + len(field) + indent > _WIDTH:
            lines.append("")
        lines[-1] += field
    inner = "\n".join(f"{pad}{line.rstrip()}" for line in lines).removesuffix(",")
    return f"{{\n{inner}\n{' ' * indent}}}"


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


if __name__ == "__main__":
    PAGE.write_text(api_markdown(), encoding="utf-8")
