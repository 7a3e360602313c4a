"""What a release system says happened to the work of the made-up team.

It follows the hidden quality of a session, ``q``: the fourth power of the share of its tool calls
that succeeded. Half of the sessions end in a pull request, with a commit: merged with probability
``q`` and, if so, reverted with probability ``0.3 * (1 - q)``. The ticket of each session is closed
with probability ``q``.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from random import Random
from typing import Any

OUTCOMES = "outcomes/demo.jsonl"


@dataclass(slots=True)
class Work:
    """The work of a session, as far as its quality depends on it."""

    organization: str
    ended_ns: int = 0
    succeeded: int = 0
    calls: int = 0

    @property
    def quality(self) -> float:
        """The hidden quality, 0 to 1."""
        return float((self.succeeded / self.calls) ** 4)


def write_outcomes(landing_dir: Path, *, seed: int, end: date) -> None:
    """Write the outcomes of the sessions in ``demo/`` that are known before ``end``."""
    known_until = datetime.combine(end, time(), UTC)
    lines = [
        json.dumps({"organization": work.organization, "session_id": session, **outcome})
        for session, work in sorted(work_of(landing_dir / "demo").items())
        if work.calls
        for outcome in (
            *_outcomes(Random(f"{seed} {session}"), work, known_until),  # noqa: S311
            *_ticket(Random(f"{seed} ticket {session}"), work, known_until),  # noqa: S311
        )
    ]
    path = landing_dir / OUTCOMES
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _outcomes(random: Random, work: Work, known_until: datetime) -> Iterator[dict[str, Any]]:
    number, chance, regret = random.randrange(1, 10_000), random.random(), random.random()
    merged_at = datetime.fromtimestamp(work.ended_ns / 1e9, UTC) + timedelta(
        hours=random.uniform(1, 60)
    )
    reverted_at = merged_at + timedelta(hours=random.uniform(2, 200))
    if random.random() < 0.5 or merged_at > known_until:
        return
    reference = f"pull/{number}"
    made = f"{datetime.fromtimestamp(work.ended_ns / 1e9, UTC):%Y-%m-%dT%H:%M:%SZ}"
    yield {"kind": "commit", "reference": f"{random.getrandbits(160):040x}", "at": made}
    is_merged = chance < work.quality
    at = {"at": f"{merged_at:%Y-%m-%dT%H:%M:%SZ}"} if is_merged else {}
    yield {"kind": "merged", "value": is_merged, "reference": reference, **at}
    if is_merged:
        is_reverted = regret < 0.3 * (1 - work.quality) and reverted_at <= known_until
        at = {"at": f"{reverted_at:%Y-%m-%dT%H:%M:%SZ}"} if is_reverted else {}
        yield {"kind": "reverted", "value": is_reverted, "reference": reference, **at}


def _ticket(random: Random, work: Work, known_until: datetime) -> Iterator[dict[str, Any]]:
    chance, number = random.random(), random.randrange(1, 10_000)
    at = datetime.fromtimestamp(work.ended_ns / 1e9, UTC) + timedelta(hours=random.uniform(1, 24))
    if at <= known_until:
        closed = {"kind": "task_closed", "value": chance < work.quality}
        yield {**closed, "reference": f"ticket/{number}", "at": f"{at:%Y-%m-%dT%H:%M:%SZ}"}


def work_of(folder: Path) -> dict[str, Work]:
    """Return the work of each session in the landing files of a folder."""
    found: dict[str, Work] = {}
    seen = defaultdict[str, set[str]](set)
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            for record in _records(line):
                values = _values(record)
                session, call = values.get("session.id"), values.get("tool_use_id")
                organization = values.get("organization.id")
                if session is None or organization is None:
                    continue
                work = found.setdefault(session, Work(organization))
                work.ended_ns = max(work.ended_ns, int(record["timeUnixNano"]))
                is_result = values.get("event.name") == "tool_result"
                if is_result and (call is None or call not in seen[session]):
                    seen[session].add(call or "")
                    work.calls += 1
                    work.succeeded += values.get("success") == "true"
    return found


def _values(record: dict[str, Any]) -> dict[str, str]:
    try:
        return {
            attribute["key"]: attribute["value"]["stringValue"]
            for attribute in record["attributes"]
            if "stringValue" in attribute["value"]
        }
    except (KeyError, TypeError):  # broken on purpose
        return {}


def _records(line: bytes) -> Iterator[dict[str, Any]]:
    try:
        sent = json.loads(line)
    except ValueError:  # broken on purpose
        return
    for resource in sent.get("resourceLogs", ()) if isinstance(sent, dict) else ():
        for scope in resource.get("scopeLogs", ()):
            yield from scope.get("logRecords", ())
