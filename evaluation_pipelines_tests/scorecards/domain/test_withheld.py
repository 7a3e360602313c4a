"""A session that waits for a blind review keeps every score to itself."""

from evaluation_pipelines.schemas import (
    OVERRIDES,
    RANKED_PERFORMANCE,
    SCORECARDS,
    SESSION_EVALUATIONS,
    TOOL_REPORTS,
)
from evaluation_pipelines.scorecards.domain.withheld import WITHHELD, without_scores
from evaluation_pipelines.views.sessions import _EXPLAINED

TABLES = (RANKED_PERFORMANCE, TOOL_REPORTS, SCORECARDS, SESSION_EVALUATIONS, OVERRIDES)


def test_every_column_on_a_scale_is_withheld() -> None:
    on_a_scale = {
        column.name
        for table in TABLES
        for column in table.columns
        if column.description.startswith("0-1")  # 0-1, 0-10 and 0-100
    }
    assert {"composite", "percentile_in_class", "confidence"} <= on_a_scale
    assert on_a_scale - WITHHELD == set()


def test_what_explains_a_low_score_is_withheld() -> None:
    assert set(_EXPLAINED) - WITHHELD == set()


def test_a_record_keeps_what_is_no_score() -> None:
    record = {"performance": {"percentile_in_class": 97.5, "partial": True, "is_flagged": True}}
    assert without_scores(record) == {
        "performance": {"percentile_in_class": None, "partial": True, "is_flagged": None}
    }
