"""Genuine replies of small models: each verdict is confirmed by a second reader."""

import json
from pathlib import Path

import pytest

from evaluation_pipelines_tests.measured_models import outcome_of, rejection
from evaluation_pipelines_tests.second_reader import why_rejected

FILES = sorted((Path(__file__).parents[1] / "data" / "judge_replies").glob("*.jsonl"))
POINTS = {"depth": 15, "care": 20}
MAXIMUM = {"depth": 25, "care": 25}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_verdict_on_genuine_replies_is_rejected_by_the_second_reader(path: Path) -> None:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    found = [(row["replies"], outcome_of(row["replies"])) for row in rows]
    rejected = [rejection(replies, each) for replies, each in found if each is not None]
    assert rejected == [None] * len(rejected)


def test_every_whole_reply_of_the_larger_model_is_a_verdict() -> None:
    (path,) = [each for each in FILES if "1.5b" in each.stem]
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    whole = [row for row in rows if row["replies"][-1]["finish_reason"] == "stop"]
    assert (len(whole), len(rows)) == (28, 30)  # two repeat themselves until they are cut
    assert [row for row in rows if outcome_of(row["replies"])] == whole


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
