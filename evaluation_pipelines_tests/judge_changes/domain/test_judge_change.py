"""What is said of a change, and the rows of the tables."""

from dataclasses import replace
from datetime import UTC, datetime

import polars as pl

from evaluation_pipelines.judge_changes.domain.judge_change import (
    AnchorScorings,
    anchor_rows,
    change_rows,
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
    simulated,
    unmeasured,
)

NOW = datetime(2026, 7, 1, tzinfo=UTC)


def test_a_bridged_change_says_whose_the_shift_is() -> None:
    found = simulated(4.0, 8.0)
    said = " ".join(sentences(found))

    assert found.is_bridged
    assert headline(found).startswith("Mean score +")
    assert ") from the new judge, +" in headline(found)
    assert found.split is not None
    shift = f"{found.split.judges_part.value:+.1f}"
    assert f"Earlier judge scores are shown adjusted by {shift}." in said
    assert "The agents became better, with either judge." in said
    assert "Both judges scored the same 120 sessions: " in said
    assert "Anchor cost: $3.60." in said


def test_a_part_that_may_be_chance_is_called_so() -> None:
    said = sentences(simulated(4.0, 0.0))

    assert "The agents' change may be chance." in said


def test_a_change_that_is_cut_promises_nothing() -> None:
    found = simulated(-6.0, 0.0, people=3, spread=16.0)
    said = " ".join(sentences(found))

    assert not found.is_bridged
    assert headline(found) == (
        "The judges cannot be compared precisely enough: break in the series."
    )
    assert "How much of it comes from the judge is unknown." in said
    assert "Sessions from only 3 people, fewer than 5: an indication" in said
    assert "better" not in said


def test_an_unmeasured_change_says_what_to_do() -> None:
    found = unmeasured(simulated(4.0, 8.0))

    assert headline(found) == "Not measured yet. Compare only scores from the same judge."
    assert sentences(found) == [
        "Both judges have scored 0 of 120 anchors.",
        "Until then there is a break in the series.",
        f"To measure it: evaluation-pipelines judge changes {CHANGE.change_id} --anchors",
    ]


def test_a_judge_without_sessions_of_its_own_is_only_compared() -> None:
    found = simulated(4.0, 8.0)
    assert found.split is not None
    pending = replace(
        found,
        change=Change(FORMER, NEW, None),
        split=replace(found.split, after=None, shift=None, agents_part=None),
        after=[],
    )

    assert headline(pending).startswith("On the same sessions the new judge differs by +")
    assert "The new judge has scored no session of its own yet." in sentences(pending)
    (row,) = change_rows([pending], NOW).to_dicts()
    assert (row["changed_on"], row["agents_part"], row["after_sessions"]) == (None, None, 0)


def test_agents_that_became_worse_and_a_rough_bridge_are_said() -> None:
    said = " ".join(sentences(simulated(2.0, -9.0, spread=9.0)))

    assert "The agents became worse, with either judge." in said
    assert "The change from the judge is rough: known to within " in said


def test_few_people_only_seem_to_change() -> None:
    said = " ".join(sentences(simulated(0.0, 30.0, people=4, spread=3.0)))

    assert "The agents seem to have become better, with either judge." in said
    assert "Sessions from only 4 people" in said


def test_few_and_replaced_anchors_are_said() -> None:
    found = simulated(4.0, 8.0)
    gone = "its texts are no longer there"
    first, *others = found.anchors
    replaced = replace(first, anchor=replace(first.anchor, replaced_because=gone))
    fewer = replace(found, anchors=[replaced, *others], cost_usd=None)
    said = sentences(fewer)

    assert "119 of 120 anchor sessions, 200 were available." in said
    assert f"Replaced anchor sessions: 1 ({gone})." in said
    assert not any("cost" in each for each in said)


def test_a_single_person_and_unknown_persons_are_said() -> None:
    found = simulated(4.0, 8.0)
    assert found.split is not None
    alone = replace(found.split.judges_part, variance=None, people=1)
    single = replace(found, split=replace(found.split, judges_part=alone))
    assert "the anchors are of a single person" in " ".join(sentences(single))
    unknown = replace(found, split=replace(found.split, clustered_by="session and day"))
    assert "People are unknown for many sessions" in " ".join(sentences(unknown))


def test_an_impossible_bridge_says_why_and_asks_for_nothing() -> None:
    found = replace(unmeasured(simulated(4.0, 8.0)), state="impossible", reason="it is gone")

    assert headline(found) == "The judges cannot be compared: break in the series."
    assert sentences(found) == ["It is gone."]


def test_an_anchor_that_failed_for_good_or_three_times_has_failed() -> None:
    assert AnchorScorings(failures=1, is_final=True).has_failed
    assert AnchorScorings(failures=3).has_failed
    assert not AnchorScorings(failures=2).has_failed
    assert not AnchorScorings([60], failures=3).has_failed


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


def test_the_tables_have_a_row_per_change_and_per_anchor() -> None:
    bridged, open_one = simulated(4.0, 8.0), unmeasured(simulated(4.0, 8.0))
    later = replace(open_one, change=replace(CHANGE, new=replace(NEW, model="judge-3")))
    rows = change_rows([bridged, later], NOW)
    (first,) = rows.filter(state="measured").to_dicts()

    assert bridged.split is not None
    part = bridged.split.judges_part
    assert (first["trend"], first["reason"], first["anchors"]) == ("bridged", None, 120)
    assert (first["judges_part"], first["half_width"]) == (part.value, part.half_width)
    assert first["shift"] - first["judges_part"] == first["agents_part"]
    assert (first["cost_usd"], first["people"], first["frame_sessions"]) == (3.6, 9, 200)
    (second,) = rows.filter(state="incomplete").to_dicts()
    assert (second["trend"], second["judges_part"], second["anchors_scored"]) == ("cut", None, 0)
    anchors = anchor_rows([bridged, bridged])
    assert anchors.height == 120
    assert anchors.select((pl.col("probability") == 0.6).all()).item()
    assert anchors["difference"].null_count() == 0


def test_a_change_without_a_bridge_is_a_warning() -> None:
    found = simulated(4.0, 8.0)
    assert every_judge_change_is_measured(change_rows([found], NOW)).passed
    failed = every_judge_change_is_measured(change_rows([unmeasured(found)], NOW))

    assert (failed.passed, failed.severity) == (False, "warning")
    assert failed.examples == (CHANGE.change_id,)
    long_ago = change_rows([unmeasured(found)], datetime(2026, 7, 28, tzinfo=UTC))
    # June 1 and 57 days.
    assert every_judge_change_is_measured(long_ago).passed
    impossible = replace(unmeasured(found), state="impossible", reason="its rubric is gone")
    assert every_judge_change_is_measured(change_rows([impossible], NOW)).passed
