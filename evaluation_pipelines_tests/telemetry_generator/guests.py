"""A few made-up sessions of each agent other than Claude Code, and the truth about them.

They are in two files: agents that log, and a team whose agents send spans only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random

from evaluation_pipelines_tests.telemetry_generator.files import RotatingFile
from evaluation_pipelines_tests.telemetry_generator.ids import uuid_text
from evaluation_pipelines_tests.telemetry_generator.wording import Record, Tokens, Wording, as_line
from evaluation_pipelines_tests.telemetry_generator.wordings import WORDINGS

SESSIONS_EACH = 2
"""Enough to see every agent, and few enough to leave the comparisons of the team alone."""

_DAY_MS = 86_400_000


@dataclass(slots=True)
class GuestTruth:
    """What really happened in one session; tokens are sums over its API calls."""

    session_id: str
    source_cli: str
    model: str
    started_ms: int
    ended_ms: int = 0
    records: int = 0
    prompts: int = 0
    tools_ok: int = 0
    tools_failed: int = 0
    tools_denied: int | None = 0
    tools_wasted: int | None = None
    api_requests: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0


def write_guests(
    folder: Path,
    *,
    seed: int,
    end: date,
    days: int,
    sessions_each: int = SESSIONS_EACH,
    wordings: Sequence[type[Wording]] = WORDINGS,
    name: str = "guests",
) -> list[GuestTruth]:
    """Write a file with sessions of some days, the last one before ``end`` (UTC).

    The same arguments give the same bytes. Gives what really happened, session by session.
    """
    random = Random(f"{name} {seed} {end}")  # noqa: S311 - it has to be repeatable, not secret
    first = datetime.combine(end - timedelta(days=days), datetime.min.time(), UTC)
    first_ms = int(first.timestamp()) * 1000
    told: list[GuestTruth] = []
    with RotatingFile(folder, name) as file:
        for number in range(sessions_each):
            for wording in wordings:
                day_ms = first_ms + (number * 5 + 1) % days * _DAY_MS
                # In the morning of a day, and over before its end.
                start_ms = day_ms + random.randrange(8 * 3_600_000, 12 * 3_600_000)
                speaks = wording(uuid_text(random))
                truth = GuestTruth(speaks.session_id, speaks.source_cli, speaks.model, start_ms)
                truth.tools_denied = 0 if speaks.can_refuse else None
                truth.tools_wasted = 0 if speaks.logs_results else None
                for records in _session(random, speaks, truth):
                    truth.records += len(records)
                    file.write(as_line(speaks, records), truth.ended_ms)
                if not truth.tools_ok:
                    truth.tools_wasted = None  # no result was logged
                told.append(truth)
    return told


def _session(random: Random, speaks: Wording, truth: GuestTruth) -> Iterator[list[Record]]:
    """The records of a session, a request at a time; keeps the account."""
    now_ms = truth.ended_ms = truth.started_ms
    opening = speaks.begin(now_ms)
    for _ in range(random.randint(1, 3)):
        truth.prompts += 1
        truth.ended_ms = now_ms
        if begun := [*opening, *speaks.prompt(now_ms)]:
            yield begun
        opening, used = [], list[int]()
        for _ in range(random.randint(2, 6)):
            now_ms += random.randrange(2_000, 20_000)
            ok = truth.tools_ok
            yield _step(random, speaks, truth, now_ms)
            truth.ended_ms = now_ms
            # The reply uses the result of every second call; nothing uses those of the others.
            if truth.tools_ok > ok and truth.api_requests % 2 == 0:
                used.append(truth.api_requests)
            elif truth.tools_ok > ok and truth.tools_wasted is not None:
                truth.tools_wasted += 1
        if reply := speaks.reply(now_ms, used):
            yield reply
        now_ms += random.randrange(30_000, 300_000)


def _step(random: Random, speaks: Wording, truth: GuestTruth, now_ms: int) -> list[Record]:
    """The model answers, and asks for a call that succeeds, fails, or is refused."""
    tokens = Tokens(
        input_tokens=random.randrange(100, 2_000),
        cached_tokens=random.randrange(0, 30_000),
        output_tokens=random.randrange(50, 900),
        thought_tokens=random.randrange(0, 40),
    )
    truth.api_requests += 1
    truth.input_tokens += tokens.input_tokens
    truth.cache_read_tokens += tokens.cached_tokens
    truth.output_tokens += tokens.output_tokens
    if not speaks.counts_thoughts_as_output:
        truth.output_tokens += tokens.thought_tokens
    answered = speaks.answer(now_ms - 500, tokens)
    number, chance = truth.api_requests, random.random()
    if chance < 0.1 and speaks.can_refuse:
        truth.tools_denied = (truth.tools_denied or 0) + 1
        return [*answered, *speaks.refuse(now_ms, number)]
    fails = chance > 0.85
    truth.tools_failed += fails
    truth.tools_ok += not fails
    duration_ms = random.randrange(20, 1_400)
    return [*answered, *speaks.call(now_ms, number, duration_ms, fails=fails)]
