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
    ends = f"between {points(-row['change_high'])} and {points(-row['change_low'])}"
    said = [f"{points(down)} points lower since {row['window_since']:%Y-%m-%d} ({ends})."]
    if row["channel"] == FAILURES:
        said.append(
            f"{row['recent_failed']} of {whole(row['recent_runs'])} sessions did not pass, and "
            f"{row['before_failed']} of {whole(row['before_runs'])} in the "
            f"{row['before_days']} days before."
        )
    else:
        said.append(
            f"The automatic scores of its {whole(row['recent_runs'])} sessions since then are "
            f"{points(row['recent_score'])} on average; in the {row['before_days']} days before, "
            f"the same people had {points(row['before_score'])} at the same kinds of task."
        )
    if row["people"] == 1:
        said.append("They are all of one person.")
    elif row["largest_share"] is not None and row["largest_share"] >= MOST_RUNS:
        said.append(
            f"One person has {percent(row['largest_share'])} of these sessions, so this says "
            "little about the others."
        )
    without_one = row["change_without_one"]
    if without_one is not None and without_one > -_ONE_PERSON * down:
        said.append(f"Without the sessions of one person the change is {signed(without_one)}.")
    return " ".join(said)
