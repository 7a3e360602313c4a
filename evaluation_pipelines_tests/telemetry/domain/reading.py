"""Helpers that read lines as ingest does, at a fixed time."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS
from evaluation_pipelines.telemetry.domain.events import Clock
from evaluation_pipelines.telemetry.domain.prices import Rates, Served, usd_per_million
from evaluation_pipelines.telemetry.domain.reader import EventBatch, EventReader
from evaluation_pipelines.telemetry.domain.shapes import Origin

NOW = datetime(2026, 6, 2, tzinfo=UTC)
NOW_US = 1_780_358_400_000_000


class OnePrice:
    """Price table with one provider, Anthropic, and one dollar per million tokens."""

    def provider_of(self, model: str) -> str | None:
        """Return Anthropic; None for the model "unknown"."""
        return None if model == "unknown" else "anthropic"

    def rates(self, served: Served, at_us: int) -> Rates | None:
        """Return one dollar per million tokens; None for the model "unknown"."""
        one = usd_per_million(Decimal(1), Decimal(1))
        return None if "unknown" in served.forms else Rates(one)


def read(*lines: bytes, **settings: Any) -> EventBatch:
    """Return the batch of some lines; ``settings`` are options of the reader."""
    options = {"dialects": DIALECTS, "max_attributes": 100, "prices": OnePrice(), **settings}
    clock = Clock(NOW_US, 300_000_000)
    reader = EventReader(clock=clock, **options)
    offset = 0
    for line in lines:
        reader.read(line.removesuffix(b"\n"), Origin("file", offset))
        offset += len(line)
    return reader.take(offset)


def read_one(*lines: bytes, **settings: Any) -> dict[str, Any]:
    """Return the only event of some lines without defects."""
    batch = read(*lines, **settings)
    assert batch.quarantined == []
    assert batch.events.height == 1
    return batch.events.row(0, named=True)
