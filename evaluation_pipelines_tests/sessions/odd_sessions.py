"""Random sessions of every shape: masques, odd values, repeated, missing and disordered records."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from evaluation_pipelines_tests.world import DAY_S, claude, line, request

ORGANIZATIONS = (None, None, None, "acme", "umbrella")
MASQUES = ("Codesmith", "Reviewer", "Räuber ✨")
TOOLS = ("Read", "Bash", "Edit", "Grep", "mcp__tracker__find", "Task")
MODELS = ("model-a", "model-b", None)
NUMBERS: tuple[object, ...] = (0, 1, 100, 12_000, -5, 2**63, "many", "", 1e30, None)
BEGINS = (0, 60, DAY_S - 30, 3 * DAY_S, -600 * DAY_S)
"""Seconds after the noon of the builders at which sessions begin."""

Record = dict[str, Any]


def odd_session(random: Random, number: int, begins: Sequence[int] = BEGINS) -> list[bytes]:
    """Return the lines of one session, in no order; several organizations may share its id."""
    name = f"s{number}"
    begin = random.choice(begins) + number
    lines: list[bytes] = []
    seconds = sorted(random.uniform(0, random.choice((5, 600, DAY_S))) for _ in range(25))
    for second in seconds[: random.randint(1, 25)]:
        # Whole and equal times are common, and where ties are decided.
        at = begin + (round(second) if random.random() < 0.7 else second)
        record = random.choice(_KINDS)(random, name, at)
        resource = {"organization.id": random.choice(ORGANIZATIONS)}
        if random.random() < 0.2:
            resource["masque.name"] = random.choice(MASQUES)
        given = {key: value for key, value in resource.items() if value is not None}
        sent = json.dumps(request([record], given)).encode() + b"\n"
        lines += [sent] * random.choice((1, 1, 1, 1, 2))
    if random.random() < 0.3:
        lines.append(_attribution(random, name, begin))
    random.shuffle(lines)
    return lines


def _prompt(random: Random, name: str, at: float) -> Record:
    label = random.choice((None, "code", "simple"))
    identity = {"session__id": name, "prompt__id": random.choice((None, "p1", "p2"))}
    return claude("user_prompt", at, classification__label=label, **identity)


def _call(random: Random, name: str, at: float) -> Record:
    return claude(
        "tool_result",
        at,
        session__id=name,
        tool_name=random.choice(TOOLS),
        success=random.choice(("true", "true", "false", "maybe", None)),
        duration_ms=random.choice(NUMBERS),
        tool_use_id=random.choice((None, "t1", "t2", "t3")),
        event__sequence=random.choice((None, 1, 2, 3)),
        prompt__id=random.choice((None, "p1", "p2")),
    )


def _decision(random: Random, name: str, at: float) -> Record:
    decision = random.choice(("accept", "reject", None))
    chosen = {"tool_name": random.choice(TOOLS), "tool_use_id": random.choice((None, "t1", "t2"))}
    return claude("tool_decision", at, session__id=name, decision=decision, **chosen)


def _api_request(random: Random, name: str, at: float) -> Record:
    tokens = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
    return claude(
        random.choice(("api_request", "api_request", "api_error")),
        at,
        session__id=name,
        model=random.choice(MODELS),
        cost_usd=random.choice((0.01, 0, -1, 1e40, "free", None)),
        request_id=random.choice((None, None, "r1", "r2")),
        **{token: random.choice(NUMBERS) for token in tokens},
    )


def _masque(random: Random, name: str, at: float) -> Record:
    record = claude("x", at, session__id=name, masque__name=random.choice(MASQUES))
    record["attributes"] = [
        attribute for attribute in record["attributes"] if attribute["key"] != "event.name"
    ]
    record["eventName"] = random.choice(("masque.don", "masque.don", "masque.doff"))
    return record


def _other(random: Random, name: str, at: float) -> Record:
    return claude(random.choice(("hook", "compaction", "session_end")), at, session__id=name)


_KINDS: tuple[Callable[[Random, str, float], Record], ...] = (
    *(_prompt, _call, _call, _call, _decision, _api_request, _masque, _other),
)


def _attribution(random: Random, name: str, begin: float) -> bytes:
    don = int(begin + random.randint(0, 60))
    said: dict[str, object] = {"session_id": name, "masque": random.choice(MASQUES)}
    said["donned_at"] = _iso(don)
    if random.random() < 0.5:
        said["doffed_at"] = _iso(don + random.randint(-5, 300))
    return json.dumps(said).encode() + b"\n"


def _iso(second: int) -> str:
    noon = datetime(2026, 6, 1, 12, tzinfo=UTC)
    return (noon + timedelta(seconds=second)).isoformat()


def other_programs() -> bytes:
    """Return a record of a program that is not known, and one without a session."""
    foreign = line(claude("x")).replace(b"com.anthropic.claude_code", b"other")
    return foreign + line(claude("user_prompt", session__id=""))
