"""Lines that go to quarantine under a low limit, and the state after a retry."""

import json
from datetime import date, timedelta

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.telemetry.domain.shapes import IngestCounts
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines.telemetry.quarantine.entries import all_entries
from evaluation_pipelines.telemetry.quarantine.retry import Retry, RetryReport
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import claude, line

SHORT = {"max_line_bytes": 2_000}


FEW = {"max_attributes": 20}


LATER = NOW + timedelta(hours=1)


def numbered(*numbers: int, **values: object) -> dict[str, object]:
    return {f"a{n}": n for n in numbers} | values


def long_line(number: int, second: float = 0) -> bytes:
    """Return a prompt of more than 2,000 bytes."""
    return line(claude("user_prompt", second, n=number, prompt="x" * 2_000))


def short_line(number: int, second: float = 0) -> bytes:
    """Return a prompt of fewer than 2,000 bytes, ``number`` milliseconds later."""
    return line(claude("user_prompt", second + number / 1_000, n=number))


def many(number: int) -> dict[str, object]:
    """Return a record with more than 20 attributes."""
    return claude("user_prompt", number, n=number, **numbered(*range(20)))


def retry(workplace: Workplace) -> RetryReport:
    """Retry all unresolved entries."""
    return Retry(workplace.stores, lambda: LATER).run()


def landed(workplace: Workplace) -> list[int]:
    """Return the numbers of all landed events."""
    return sorted(json.loads(text)["n"] for text in workplace.landed()["attributes"])


def unresolved(workplace: Workplace) -> list[tuple[int, int, str]]:
    """Return offset, record and reason of the unresolved entries."""
    frame = all_entries(workplace.stores)
    return frame.select("offset", "record_index", "reason").rows()


def totals(workplace: Workplace) -> IngestCounts:
    """Return the counts of all ingests."""
    return IngestBatches(workplace.ledger).totals()


def is_balanced(workplace: Workplace) -> bool:
    """Whether every event that was counted has landed or was erased."""
    batches = IngestBatches(workplace.ledger)
    found = batches.balance(AGENT_EVENTS_LANDED.name, date(2020, 1, 1), date(2030, 1, 1))
    return found.counted == found.within + found.outside + sum(found.erased.values())
