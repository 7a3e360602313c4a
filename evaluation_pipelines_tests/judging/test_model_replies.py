"""Genuine replies of small models: each verdict is confirmed by a second reader."""

import json
from pathlib import Path

import pytest

from evaluation_pipelines_tests.judging.measured_models import outcome_of, rejection
from evaluation_pipelines_tests.judging.second_reader import why_rejected

FILES = sorted((Path(__file__).parents[1] / "data" / "judge_replies").glob("*.jsonl"))
POINTS = {"depth": 15, "care": 20}
MAXIMUM = {"depth": 25, "care": 25}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_verdict_on_genuine_replies_is_rejected_by_the_second_reader(path: Path) -> None:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    found = [(row["replies"], outcome_of(row["replies"])) for row in rows]
    rejected = [rejection(replies, judgment) for replies, judgment in found if judgment is not None]
    assert rejected == [None] * len(rejected)


def test_every_session_has_a_verdict_of_the_larger_model() -> None:
    (path,) = [file for file in FILES if "1.5b" in file.stem]
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    assert len([row for row in rows if outcome_of(row["replies"])]) == len(rows) == 30
    # One answer repeats itself until it is cut; asked again for a short one, the model gives it.
    (cut,) = [row["replies"] for row in rows if row["replies"][0]["finish_reason"] != "stop"]
    assert [reply["finish_reason"] for reply in cut] == ["length", "stop"]


@pytest.mark.parametrize("last", ["70", "**70**", "total: 70", "Total score: **70**"])
def test_the_second_reader_confirms_what_the_lines_say(last: str) -> None:
    reply = f"Fine.\ndepth: 15/25\n* care: 20/25\n{last}"

    assert why_rejected([reply], 70, POINTS, MAXIMUM) is None
    assert why_rejected([reply], 71, POINTS, MAXIMUM) is not None
    assert why_rejected([reply], 70, {**POINTS, "care": 21}, MAXIMUM) is not None
    assert why_rejected([reply], 70, {**POINTS, "care": None}, MAXIMUM) is not None


@pytest.mark.parametrize("last", ["70/100", "about 70", "70.5", "total: 80", "the total is 70"])
def test_the_second_reader_rejects_other_last_lines(last: str) -> None:
    reply = f"depth: 15/25\ncare: 20/25\n{last}"
    number = 80 if "80" in last else 70

    assert why_rejected([reply], number, POINTS, MAXIMUM) is not None
