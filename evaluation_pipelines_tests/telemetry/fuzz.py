"""Captured telemetry with random mutations of bytes or values, reproducible by seed."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from random import Random
from typing import Any

from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines_tests.world import line, session

NESTED: Any = []
for _ in range(200):
    NESTED = [NESTED]

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    2**63,
    -(2**63) - 1,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    -0.0,
    "",
    " ",
    "NaN",
    "undefined",
    "-1",
    "1e999",
    "9" * 30,
    "0",
    "9223372036854775808",
    "1970-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z",
    "0001-01-01T00:00:00+23:59",
    "\0",
    "\ud83d",
    "\u202e<script>alert(1)</script>",
    "'; drop table agent_events; --",
    "claude_code.",
    "codex.sse_event",
    "gen_ai.choice",
    "masque.don",
    "{",
    "[]",
    '{"command": 5}',
    [],
    {},
    [[]],
    {"stringValue": None},
    {"intValue": "x"},
    {"doubleValue": "Infinity"},
    {"arrayValue": {"values": [{}]}},
    {"kvlistValue": {"values": [{"key": None, "value": 5}]}},
    {"bytesValue": "!"},
    {"stringValue": "x", "intValue": 5},
    NESTED,
)

Node = tuple[Any, Any]
"""A dictionary or list, and a key or index of it."""


def mutated_lines(random: Random, count: int) -> Iterator[bytes]:
    """Yield ``count`` mutated lines of captured telemetry."""
    for _ in range(count):
        original = random.choice(_captured_lines())
        mutate = random.choice((_mutate_bytes, _mutate_values, _mutate_values))
        yield mutate(random, original).replace(b"\n", b" ")


@cache
def _captured_lines() -> tuple[bytes, ...]:
    shipped = [
        line for path in sorted(SAMPLES.rglob("*.jsonl")) for line in path.read_bytes().splitlines()
    ]
    attribution = b'{"session_id": "s", "masque": "M", "donned_at": "2026-06-01T12:00:00Z"}'
    short = [line for line in shipped if len(line) < 8_000]
    return (*short, session("s").rstrip(), line().rstrip(), attribution)


def _mutate_bytes(random: Random, text: bytes) -> bytes:
    """Change, delete, repeat or add bytes, as a broken disk or program does."""
    mutated = bytearray(text)
    for _ in range(random.randint(1, 4)):
        start = random.randrange(len(mutated) + 1)
        end = min(len(mutated), start + random.choice((1, 1, 1, 8, 200)))
        change = random.randrange(5)
        if change == 0:
            del mutated[start:end]
        elif change == 1:
            mutated[start:start] = mutated[start:end]
        elif change == 2:
            mutated[start:end] = random.randbytes(end - start)
        elif change == 3:
            mutated[start:start] = random.choice((b"\0", b"\xff", b'"', b"{", b"}", b"\\", b"\r"))
        else:
            del mutated[start:]
    return bytes(mutated)


def _mutate_values(random: Random, text: bytes) -> bytes:
    """Exchange values, keys and whole branches: valid but unexpected JSON."""
    document = json.loads(text)
    for _ in range(random.randint(1, 6)):
        if nodes := list(_nodes(document)):
            parent, key = random.choice(nodes)
            random.choice(_CHANGES)(random, parent, key, nodes)
    values = [(parent, key) for parent, key in _nodes(document) if _is_value(parent, key)]
    for parent, key in random.sample(values, len(values) // random.choice((2, 10, 1000))):
        parent[key] = deepcopy(random.choice(ODD_VALUES))
    return json.dumps(document, ensure_ascii=random.random() < 0.5).encode("utf-8", "replace")


def _is_value(parent: Any, key: Any) -> bool:
    """Return True for an attribute value or a time."""
    return isinstance(key, str) and key.endswith(("Value", "Nano")) and isinstance(parent, dict)


def _nodes(value: Any) -> Iterator[Node]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield value, key
        if isinstance(inner, dict | list):
            yield from _nodes(inner)


def _exchange(random: Random, parent: Any, key: Any, _nodes: list[Node]) -> None:
    parent[key] = deepcopy(random.choice(ODD_VALUES))


def _remove(_random: Random, parent: Any, key: Any, _nodes: list[Node]) -> None:
    del parent[key]


def _transplant(random: Random, parent: Any, key: Any, nodes: list[Node]) -> None:
    other, index = random.choice(nodes)
    parent[key] = json.loads(json.dumps(other[index]))  # a copy: it must not contain itself


def _rename(random: Random, parent: Any, key: Any, nodes: list[Node]) -> None:
    if isinstance(parent, dict):
        names = [str(other) for _, other in nodes if isinstance(other, str)]
        parent[random.choice([*names, "", "\0", "resourceSpans", "session_id"])] = parent.pop(key)


_CHANGES: tuple[Callable[[Random, Any, Any, list[Node]], None], ...] = (
    _exchange,
    _exchange,
    _exchange,
    _remove,
    _transplant,
    _rename,
)
