"""What is said of a change, and the check."""

from dataclasses import replace
from datetime import UTC, datetime

import polars as pl
import pytest

from evaluation_pipelines.judge_changes.anchors import anchor_rows, change_rows
from evaluation_pipelines.judge_changes.domain.judge_change import (
    JudgeChange,
    every_judge_change_is_measured,
    headline,
    names,
    sentences,
    title,
)
from evaluation_pipelines.judge_changes.domain.judges import Change
from evaluation_pipelines_tests.judge_changes.change_builders import (
    CHANGE,
    FORMER,
    NEW,
    changed,
    simulated,
    unmeasured,
)

BRIDGED = simulated(4.0, 8.0)


def test_a_bridged_change_says_whose_the_shift_is() -> None:
    said = " ".join(sentences(BRIDGED))

    assert headline(BRIDGED.row).startswith("Mean score +")
    assert ") from the new judge, +" in headline(BRIDGED.row)
    shift = f"{BRIDGED.row['judges_part']:+.1f}"
    assert f"Earlier judge scores are shown adjusted by {shift}." in said
    assert "The agents became better, with either judge." in said
    assert "Both judges scored the same 120 sessions: " in said
    assert "Anchor cost: $3.60." in said
    assert "The agents' change may be chance." in sentences(simulated(4.0, 0.0))


def test_a_change_that_is_cut_promises_nothing() -> None:
    found = simulated(-6.0, 0.0, people=3, spread=16.0)
    said = " ".join(sentences(found))

    assert headline(found.row) == (
        "The judges cannot be compared precisely enough: break in the series."
    )
    assert "not comparable, because the judge's part is known to within " in said
    assert "How much of it comes from the judge is unknown." in said
    assert "Sessions from only 3 people, fewer than 5: an indication" in said
    assert "better" not in said


def test_an_unmeasured_change_says_what_to_do() -> None:
    found = unmeasured(BRIDGED)

    assert headline(found.row) == "Not measured yet. Compare only scores from the same judge."
    assert sentences(found) == [
        "Both judges have scored 0 of 120 anchors.",
        "Until then there is a break in the series.",
        f"To measure it: evaluation-pipelines judge changes {CHANGE.change_id} --anchors",
    ]
    impossible = changed(found, state="impossible", reason="it is gone")
    assert headline(impossible.row) == "The judges cannot be compared: break in the series."
    assert sentences(impossible) == ["It is gone."]


def test_a_judge_without_sessions_of_its_own_is_only_compared() -> None:
    pending = changed(BRIDGED, shift=None, agents_part=None)

    assert headline(pending.row).startswith("On the same sessions the new judge differs by +")
    assert "The new judge has scored no session of its own yet." in sentences(pending)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (simulated(2.0, -9.0, spread=9.0), "The agents became worse, with either judge."),
        (simulated(2.0, -9.0, spread=9.0), "The change from the judge is rough: known to within "),
        (
            simulated(0.0, 30.0, people=4, spread=3.0),
            "The agents seem to have become better, with either judge.",
        ),
        (simulated(0.0, 30.0, people=4, spread=3.0), "Sessions from only 4 people"),
        (
            changed(BRIDGED, clustered_by="session and day"),
            "People are unknown for many sessions",
        ),
    ],
)
def test_a_rough_bridge_and_few_people_are_said(found: JudgeChange, sentence: str) -> None:
    assert sentence in " ".join(sentences(found))


def test_few_and_replaced_anchors_are_said() -> None:
    gone = pl.Series(["its texts have expired", *[None] * 119])
    anchors = BRIDGED.anchors.with_columns(replaced_because=gone)
    fewer = changed(BRIDGED, anchors=119, anchors_replaced=1, cost_usd=None)
    said = sentences(replace(fewer, anchors=anchors))

    assert "119 of 120 anchor sessions, 200 were available." in said
    assert "Replaced anchor sessions: 1 (its texts have expired)." in said
    assert not any("cost" in each for each in said)


def test_judges_are_named_by_what_differs() -> None:
    reworded = replace(FORMER, prompt_hash="b" * 64)
    assert names(CHANGE) == ("judge-1", "judge-2")
    assert names(Change(FORMER, replace(FORMER, profile_version=2), None)) == (
        "version 1",
        "version 2",
    )
    assert names(Change(FORMER, reworded, None)) == ("wording aaaaaaa", "wording bbbbbbb")
    assert title(Change(FORMER, replace(NEW, prompt_hash="b" * 64), None)) == (
        "profile default: another model and wording of the rubric not in use yet"
    )


def test_a_change_that_happened_twice_has_its_anchors_once() -> None:
    twice = [BRIDGED, changed(BRIDGED, changed_on=None)]

    assert (change_rows(twice).height, anchor_rows(twice).height) == (2, 120)


def test_a_change_without_a_bridge_is_a_warning() -> None:
    open_one = unmeasured(BRIDGED)
    assert every_judge_change_is_measured(change_rows([BRIDGED])).passed
    failed = every_judge_change_is_measured(change_rows([open_one]))

    assert (failed.passed, failed.severity) == (False, "warning")
    assert failed.examples == (CHANGE.change_id,)
    # June 1 and 57 days.
    long_ago = changed(open_one, computed_at=datetime(2026, 7, 28, tzinfo=UTC))
    impossible = changed(open_one, state="impossible", reason="its rubric is gone")
    for change in (long_ago, impossible):
        assert every_judge_change_is_measured(change_rows([change])).passed
