"""What other systems say about the agents of the made-up team: payments, reviews, keys, gates."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from random import Random
from typing import Any

from evaluation_pipelines_tests.telemetry_generator.team import MASQUES, TEAMS, Masque

FILES = ("signals/demo.jsonl", "evaluations/demo.jsonl")
_GATE = "release-gate"
_GATE_RUNS = 520
_BROKEN = (
    '{"event_type":"payment_completed","score_delta":7,"agent_id":"Scout"}',
    "payment completed, Codesmith, 12 USD",
)


def write_outside(landing_dir: Path, *, seed: int, end: date, days: int) -> None:
    """Write signals and evaluations of the days before ``end`` into the landing folder.

    The last two lines of the signals are broken. Files that are there stay as they are; the same
    arguments give the same bytes.
    """
    random = Random(f"outside {seed} {end}")  # noqa: S311 - it has to be repeatable, not secret
    first = datetime.combine(end, time(), UTC) - timedelta(days=days)
    signals = sorted(map(_line, _signals(random, first, days)))
    for name, lines in zip(
        FILES, ([*signals, *_BROKEN], [*map(_line, _gates(random, first, days))]), strict=True
    ):
        path = landing_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            aside = path.with_name(f".{path.name}")
            aside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            aside.replace(path)


def _signals(random: Random, first: datetime, days: int) -> Iterator[dict[str, Any]]:
    organizations = sorted({team.organization for team in TEAMS})
    for organization in organizations:
        for masque in MASQUES:
            about = {"organization_id": organization, "agent_id": masque.name}
            for day in range(days):
                for kind, reference in _of_a_day(random, masque, day):
                    moment = first + timedelta(days=day, seconds=random.randrange(86_400))
                    yield {
                        "timestamp": _text(moment),
                        "event_type": kind,
                        "reference_type": reference,
                        "reference_id": f"{organization}-{masque.name}-{kind}-{day}",
                        **about,
                    }


def _of_a_day(random: Random, masque: Masque, day: int) -> Iterator[tuple[str, str]]:
    """Event types of a day: the masque that gets worse and worse is paid and praised less."""
    trouble = 0.08 + masque.decline * day / 14
    paid, late = random.random() > trouble, random.random() < trouble
    yield ("payment_completed" if paid else "payment_failed"), "transaction"
    if late:
        yield "settlement_delayed", "transaction"
    if random.random() < 0.4:
        praised = random.random() > 2 * trouble
        yield ("review_positive" if praised else "review_negative"), "attestation"
    if day % 7 == 3:
        yield "key_rotated", "attestation"
    if masque.decline and day == 9:
        yield "credential_leaked", "attestation"


def _gates(random: Random, first: datetime, days: int) -> Iterator[dict[str, Any]]:
    """An agent that checks every change before it is released: fast, many runs, few failures."""
    for number in range(_GATE_RUNS):
        moment = first + timedelta(days=days) * number / _GATE_RUNS
        yield {
            "evaluation_id": f"{_GATE}-{number:04}",
            "organization_id": TEAMS[0].organization,
            "agent_id": _GATE,
            "evaluated_at": _text(moment),
            "passed": random.random() > 0.03,
            "latency_ms": round(random.uniform(12, 55), 1),
            "source": "release pipeline",
        }


def _line(values: dict[str, Any]) -> str:
    return json.dumps(values, separators=(",", ":"))


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
