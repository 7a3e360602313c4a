"""The ledger as of a past time: what was made later is not seen."""

from collections.abc import Collection
from dataclasses import replace
from datetime import date, datetime

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.adapters.ledger.ledger import Ledger
from evaluation_pipelines.adapters.ledger.overrides import AuditSample, Overrides
from evaluation_pipelines.adapters.ledger.profiles import JudgeProfiles
from evaluation_pipelines.adapters.ledger.score_tables import SESSION_SCORES
from evaluation_pipelines.adapters.ledger.scores import ScoreStore
from evaluation_pipelines.adapters.ledger.tool_priorities import AskedPriorities, ToolPriorities
from evaluation_pipelines.domain.judging.score import Score
from evaluation_pipelines.domain.scorecards.registry import Registry
from evaluation_pipelines.domain.telemetry.times import to_us


def past_ledger(ledger: Ledger, then: datetime) -> Ledger:
    """The ledger for reports as of a time; it is not meant to be written."""
    engine = ledger.engine
    return replace(
        ledger,
        overrides=_PastOverrides(engine, then),
        profiles=_PastProfiles(engine, then),
        scores=_PastScores(engine, then),
        tool_priorities=_PastPriorities(engine, then),
    )


class _PastOverrides(Overrides):
    def __init__(self, engine: sa.Engine, then: datetime) -> None:
        super().__init__(engine)
        self._then = then

    def of_dates(self, dates: Collection[date] | None = None) -> pl.DataFrame:
        """Those that had been made."""
        return super().of_dates(dates).filter(pl.col("made_at") <= self._then)

    def samples(self) -> list[AuditSample]:
        """Those that had been drawn, with the answers that had been given."""
        given = set(self.of_dates()["override_id"])
        return [
            each if each.override_id in given else replace(each, override_id=None)
            for each in super().samples()
            if each.drawn_at <= self._then
        ]


class _PastProfiles(JudgeProfiles):
    def __init__(self, engine: sa.Engine, then: datetime) -> None:
        super().__init__(engine)
        self._then = then

    def registry(self) -> Registry:
        """The versions that had been registered; what needs no version is as it is today."""
        known = super().registry().versions
        return Registry.of(each for each in known if each.registered_at <= self._then)


class _PastScores(ScoreStore):
    def __init__(self, engine: sa.Engine, then: datetime) -> None:
        super().__init__(engine)
        self._then = then

    def _select(self, *conditions: sa.ColumnElement[bool]) -> list[Score]:
        """Scorings that had come to their end: of the others it is not kept how far they were."""
        ended = SESSION_SCORES.c.completed_at_us <= to_us(self._then)
        return super()._select(ended, *conditions)


class _PastPriorities(ToolPriorities):
    def __init__(self, engine: sa.Engine, then: datetime) -> None:
        super().__init__(engine)
        self._then = then

    def of_period(self, period_start: date, period_end: date) -> list[AskedPriorities]:
        """What had been asked."""
        asked = super().of_period(period_start, period_end)
        return [each for each in asked if each.asked_at_us <= to_us(self._then)]
