"""Parsers that parse every line and do nothing with it, on one core: limits to know."""

from pathlib import Path

import cysimdjson
import orjson


def orjson_parse(source: str) -> dict[str, int]:
    """Python objects of every line."""
    lines = 0
    with Path(source).open("rb") as handle:
        for line in handle:
            orjson.loads(line)
            lines += 1
    return {"lines": lines}


def simdjson_parse(source: str) -> dict[str, int]:
    """Only the parser's own tape: nothing becomes a Python object."""
    parser, lines = cysimdjson.JSONParser(), 0
    with Path(source).open("rb") as handle:
        for line in handle:
            parser.parse(line)
            lines += 1
    return {"lines": lines}
