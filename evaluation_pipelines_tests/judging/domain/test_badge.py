"""What lists show of a judge score, and scores that are left out for their flags."""

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.judging.domain.badge import Badge, badge, band, without_flagged
from evaluation_pipelines.schemas import SCORE_FLAGS


@pytest.mark.parametrize(
    ("score", "expected"),
    [(0, "red"), (49.9, "red"), (50, "yellow"), (74, "yellow"), (75, "green"), (100, "green")],
)
def test_a_band_begins_with_its_lowest_score(score: float, expected: str) -> None:
    assert band(score) == expected


def scoring(status: str, total: int | None = None, **flags: bool | None) -> Any:
    values = {"judge_model": "judge-1", "status": status, "total_score": total, "is_left": False}
    values["error_message"] = "refused" if status == "failed" else None
    return SimpleNamespace(**(dict.fromkeys(SCORE_FLAGS) | values | flags))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (scoring("pending"), Badge("Waits for the judge", None, "judge-1")),
        (scoring("pending", is_left=True), Badge("Not scored", None, "judge-1")),
        (scoring("in_progress"), Badge("Scoring", None, "judge-1")),
        (
            scoring("failed", truncated=True),
            Badge("Failed", None, "judge-1", ("truncated",), "refused"),
        ),
        (scoring("completed", 0, truncated=False), Badge("0 red", 0, "judge-1")),
        (scoring("completed", 62), Badge("62 yellow", 62, "judge-1")),
    ],
)
def test_a_badge_is_the_total_with_its_band_or_the_state(found: Any, expected: Badge) -> None:
    assert badge(found) == expected


def rows(*given: tuple[str, float | None, str | None, bool | None, bool | None]) -> pl.DataFrame:
    names = ("status", "total_score", "error_message", "injection_suspected", "truncated")
    others = [pl.lit(None, pl.Boolean).alias(name) for name in SCORE_FLAGS if name not in names]
    return pl.DataFrame(given, schema=names, orient="row").with_columns(others)


def test_flagged_scores_have_no_total_and_say_which_flags_leave_them_out() -> None:
    found = rows(
        ("completed", 100.0, None, True, True),
        ("completed", 70.0, None, False, True),
        ("completed", 60.0, None, None, None),
        ("failed", None, "refused", True, False),
    )

    assert without_flagged(found, ()).equals(found)
    one = without_flagged(found, ("injection_suspected",))
    why = "its judge score is left out by EVAL_JUDGE_EXCLUDE_FLAGGED: "
    assert one.select("status", "total_score", "error_message").rows() == [
        ("flagged", None, f"{why}injection_suspected"),
        ("completed", 70.0, None),
        ("completed", 60.0, None),
        ("failed", None, "refused"),
    ]
    both = without_flagged(found, ("truncated", "injection_suspected"))
    assert both["error_message"].to_list()[:2] == [
        f"{why}injection_suspected and truncated",
        f"{why}truncated",
    ]
