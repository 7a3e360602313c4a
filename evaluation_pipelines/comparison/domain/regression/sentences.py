"""An alert of the watch in words; nothing in them comes from telemetry."""

from collections.abc import Mapping
from typing import Any

from evaluation_pipelines.comparison.domain.regression.looks import FAILURES
from evaluation_pipelines.formatting import percent, points, signed, whole

_ONE_PERSON = 0.5
"""If less than this share of a drop is left without one person, that is said."""

MOST_RUNS = 2 / 3
"""From this share of the runs on, a drop is one of a person rather than of a model."""


def alert_sentences(row: Mapping[str, Any]) -> str:
    """Return since when a model is lower, and by how much; ``row`` is in state "alert"."""
    down = -row["change"]
    ends = f"{points(-row['change_high'])} to {points(-row['change_low'])}"
    said = [f"Down {points(down)} points since {row['window_since']:%Y-%m-%d} ({ends})."]
    before = f"in the {row['before_days']} days before"
    if row["channel"] == FAILURES:
        said.append(
            f"Not passed: {row['recent_failed']} of {whole(row['recent_runs'])} sessions since "
            f"then, {row['before_failed']} of {whole(row['before_runs'])} {before}."
        )
    else:
        said.append(
            f"Mean automatic score: {points(row['recent_score'])} in {whole(row['recent_runs'])} "
            f"sessions since then, {points(row['before_score'])} {before} for the same people and "
            "task classes."
        )
    if row["people"] == 1:
        said.append("All are from one person.")
    elif row["largest_share"] is not None and row["largest_share"] >= MOST_RUNS:
        said.append(
            f"One person has {percent(row['largest_share'])} of these sessions, so this says "
            "little about others."
        )
    without_one = row["change_without_one"]
    if without_one is not None and without_one > -_ONE_PERSON * down:
        said.append(f"Without one person's sessions the change is {signed(without_one)}.")
    return " ".join(said)
