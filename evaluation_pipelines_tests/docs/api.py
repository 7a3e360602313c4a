"""Write ``docs/api.md``: every route with an example request, its response and error codes.

Run it with ``python -m evaluation_pipelines_tests.docs.api``.
"""

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evaluation_pipelines.access.domain.keys import ROLE_MEANINGS, Role
from evaluation_pipelines_tests.docs.documents import FOLDER
from evaluation_pipelines_tests.service.answers import judging
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.examples import EXAMPLES, Example, routes_of

PAGE = FOLDER / "api.md"

_SHOWN_FIELDS = 20
_SHOWN_CHARACTERS = 100
_WIDTH = 100
_FIXED = {
    "score_id": "0d5b2c1e-7a41-4a39-9a4e-5d1f6a523c0e",
    "built_at": "2026-12-01T00:00:07Z",
}
"""What differs each time: the page always has these."""

_HEAD = """# API

Every route of `evaluation-pipelines serve`, with an example and its answer, generated from the
service. `/openapi.json` has all fields and parameters for programs, `/api` a page of them.

* Keys go into the header `Authorization: Bearer KEY`. Their roles:
{roles}
* The key of an organization sees that organization alone; what belongs to another one is 404.
* Errors are `{{"error": {{"code", "message", "help"}}}}`. Every route: 400 for what cannot be
  understood, 401 without an accepted key, 403 for a role that lacks, 429 with `Retry-After` for
  [too many requests](service.md#limits). Bodies: 408 for a slow one, 413 for a large one.
* Routes of `GET` also answer `HEAD`.
* Times are RFC 3339 in UTC, or microseconds since 1970 where the name ends in `_us`. Unknown is
  null.
* Lists are pages: pass `next_cursor` as `cursor` until it is null.
* A session is named by its key (`#` is `%23` in a path, `/` is `%2F`), or by its id if it has one
  window. An id of several is 400, and `help` lists the candidates.
* Events come over a WebSocket: [the service](service.md#events).
* Below, `...` stands for what is left out: further fields, rows and lines.
"""


def api_markdown() -> str:
    """Return the whole page."""
    roles = "\n".join(f"  * `{role}`: {ROLE_MEANINGS[role]}" for role in Role)
    with TemporaryDirectory() as folder, judging(Path(folder)) as service:
        sections = list(_sections(service))
    return "\n".join([_HEAD.format(roles=roles), *sections])


def _sections(service: Service) -> Iterator[str]:
    operations = routes_of(service.app.openapi())
    for route, examples in groupby(EXAMPLES, key=lambda each: each.route):
        operation = operations[route]
        yield f"## {route}\n\n{_plain(operation['description'])}\n{_errors(operation)}"
        for each in examples:
            yield _example(service, each)


def _errors(operation: dict[str, Any]) -> str:
    common = {"200", "202", "400", "401", "403", "408", "413", "429"}
    found = {
        status: each["description"]
        for status, each in operation["responses"].items()
        if status not in common
    }
    lines = [f"{status}: {meaning}." for status, meaning in sorted(found.items())]
    return "".join(f"\n* {line}" for line in lines) + ("\n" if lines else "")


def _example(service: Service, example: Example) -> str:
    response = example.send(service.client())
    assert response.status_code in {200, 202}, (example, response.text)
    role = "" if example.role is None else f"  (role {example.role}{_of_all(example)})"
    method = example.route.partition(" ")[0]
    sent = "" if example.body is None else f"\n{_json(example.body)}"
    return f"```text\n{method} {example.url}{role}{sent}\n```\n\n{_answer(response)}"


def _of_all(example: Example) -> str:
    return ", key of all organizations" if example.of_all else ""


def _answer(response: Any) -> str:
    if response.headers["content-type"].startswith("application/json"):
        return f"```json\n{_json(_shortened(response.json()))}\n```\n"
    kind = response.headers["content-type"].partition(";")[0]
    return f"The answer is `{kind}`.\n"


def _shortened(value: Any) -> Any:
    """Return JSON with the first fields of objects, rows of lists and lines of texts."""
    match value:
        case dict():
            shown = dict(list(value.items())[:_SHOWN_FIELDS])
            more = {"...": "..."} if len(value) > len(shown) else {}
            shown |= {name: fixed for name, fixed in _FIXED.items() if name in shown}
            return {name: _shortened(each) for name, each in shown.items()} | more
        case list() if len(value) > 1 and not isinstance(value[0], str):
            return [_shortened(value[0]), "..."]
        case list():
            return [_shortened(each) for each in value]
        case str() if len(value) > _SHOWN_CHARACTERS:
            return f"{value[:_SHOWN_CHARACTERS]}..."
    return value


def _json(value: Any, indent: int = 0) -> str:
    """Return JSON in which short objects and lists are on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= _WIDTH or not isinstance(value, (dict, list)):
        return flat
    pad = " " * (indent + 2)
    if isinstance(value, list):
        parts = [_json(each, indent + 2) for each in value]
        return "[\n" + ",\n".join(f"{pad}{each}" for each in parts) + f"\n{' ' * indent}]"
    lines = [f"{json.dumps(name)}: {_json(each, indent + 2)}" for name, each in value.items()]
    return "{\n" + ",\n".join(f"{pad}{each}" for each in lines) + f"\n{' ' * indent}}}"


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


if __name__ == "__main__":
    PAGE.write_text(api_markdown(), encoding="utf-8")
