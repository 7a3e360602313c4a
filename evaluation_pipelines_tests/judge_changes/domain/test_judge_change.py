"""A judge change: drawing of anchors, the split of its shift, what is said, and the check."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.people import UNKNOWN_PERSON
from evaluation_pipelines.judge_changes.anchors import anchor_rows, change_rows
from evaluation_pipelines.judge_changes.domain.anchor_sample import allocate, draw, replacements
from evaluation_pipelines.judge_changes.domain.judge_change import (
    JudgeChange,
    Stratum,
    every_judge_change_is_measured,
    headline,
    names,
    sentences,
    title,
)
from evaluation_pipelines.judge_changes.domain.judges import Change
from evaluation_pipelines.judge_changes.domain.shift import (
    Mean,
    Part,
    means_sum,
    period_means,
    split,
)
from evaluation_pipelines_tests.judge_changes.change_builders import (
    CHANGE,
    DAY,
    FORMER,
    NEW,
    changed,
    rows,
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
    assert not any("cost" in sentence for sentence in said)


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


def frame(**sessions: tuple[int, str | None]) -> pl.DataFrame:
    """Sessions to draw: how many of each label, and their model."""
    rows = [
        ("default", f"{label}-{number}", label, model)
        for label, (size, model) in sessions.items()
        for number in range(size)
    ]
    names = ("organization_id", "session_key", "classification_label", "agent_model")
    return pl.DataFrame(rows, dict.fromkeys(names, pl.String), orient="row")


MIXED = frame(code=(300, "aspen"), other=(90, "birch"), simple=(9, "aspen"), unknown=(1, None))


def test_the_largest_remainders_are_rounded_up() -> None:
    sizes: dict[Stratum, int] = {("a", "m"): 55, ("b", "m"): 33, ("c", "m"): 12}

    # 10 of 100: 5.5, 3.3 and 1.2 (two at least): 5 + 3 + 2 = 10.
    assert allocate(sizes, 10) == {("a", "m"): 5, ("b", "m"): 3, ("c", "m"): 2}
    assert allocate(sizes, 100) == sizes
    # 11: 6.05, 3.63 and 1.32: 6 + 3 + 2 = 11; 12: 6.6, 3.96, 1.44: 6 + 3 + 2, then b.
    assert allocate(sizes, 11) == {("a", "m"): 6, ("b", "m"): 3, ("c", "m"): 2}
    assert allocate(sizes, 12) == {("a", "m"): 6, ("b", "m"): 4, ("c", "m"): 2}


def test_many_small_strata_get_more_anchors_than_wanted() -> None:
    sizes: dict[Stratum, int] = {(f"label {number}", "m"): 10 for number in range(100)}

    assert set(allocate(sizes, 120).values()) == {2}


def test_a_drawing_has_known_probabilities() -> None:
    anchors = draw(MIXED, "change")

    drawn = anchors.group_by("classification_label").agg(
        pl.len(),
        pl.col("stratum_anchors", "stratum_sessions").unique().first(),
        pl.col("place").max(),
    )
    # 120 of 400: 90, 27, 2.7 and 0.3; at least two of each stratum that has them.
    assert sorted(drawn.rows()) == [
        ("code", 90, 90, 300, 89),
        ("other", 27, 27, 90, 26),
        ("simple", 2, 2, 9, 1),
        ("unknown", 1, 1, 1, 0),
    ]


def test_the_order_of_the_sessions_does_not_matter_and_the_change_does() -> None:
    drawn = draw(MIXED, "change")

    assert draw(MIXED.reverse(), "change").equals(drawn)
    assert set(draw(MIXED, "another")["session_key"]) != set(drawn["session_key"])


def test_every_session_of_a_stratum_is_as_likely_as_the_others() -> None:
    sessions = frame(code=(20, "aspen"))
    times = Counter(
        key for number in range(400) for key in draw(sessions, f"{number}", 5)["session_key"]
    )

    # 5 of 20 in 400 drawings: 100 each, standard deviation sqrt(400 * 0.25 * 0.75) = 8.66.
    assert sum(times.values()) == 2000
    assert all(abs(time - 100) < 5 * 8.66 for time in times.values())


def noted(anchors: pl.DataFrame, *replaced: str) -> pl.DataFrame:
    """Anchors of which some were replaced."""
    is_gone = pl.col("session_key").is_in(replaced)
    return anchors.with_columns(replaced_because=pl.when(is_gone).then(pl.lit("gone")))


def test_a_replaced_anchor_is_followed_by_the_next_of_its_stratum() -> None:
    anchors = draw(MIXED, "change")
    gone = anchors.filter(classification_label="other")["session_key"].head(2)
    assert replacements(noted(anchors), MIXED, "change").is_empty()

    more = replacements(noted(anchors, *gone), MIXED, "change")
    # The order of the stratum is that of a larger drawing.
    others = MIXED.filter(classification_label="other")
    next_ones = draw(others, "change", 29)["session_key"].tail(2)
    assert more.select("session_key", "place", "stratum_anchors", "stratum_sessions").rows() == [
        (next_ones[0], 27, 27, 90),
        (next_ones[1], 28, 27, 90),
    ]
    every = pl.concat([noted(anchors, *gone), noted(more)], how="diagonal")
    assert replacements(every, MIXED, "change").is_empty()


def test_strata_that_were_not_drawn_from_or_have_no_further_sessions_stay() -> None:
    some = frame(code=(3, "aspen"))
    gone = noted(draw(some, "change"), "code-0", "code-1", "code-2")

    assert replacements(gone, some, "change").is_empty()
    larger = frame(code=(4, "aspen"), other=(1, None))
    assert replacements(gone, larger, "change")["session_key"].to_list() == ["code-3"]


def array(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(values, dtype=np.float64)


def weighted_mean(values: np.ndarray, weights: np.ndarray, people: np.ndarray) -> Mean:
    return means_sum(Part(values, weights, people))


def test_one_value_a_person_is_students_interval() -> None:
    found = weighted_mean(array(1, 2, 6), np.ones(3), np.arange(3))

    # Mean 3, squares 4 + 1 + 9 = 14, variance 14 / 2 / 3 = 7 / 3, 2 degrees of freedom: t = 4.3027.
    assert (found.value, found.people) == (3, 3)
    assert found.variance == pytest.approx(7 / 3)
    assert found.freedom == pytest.approx(2)
    assert found.half_width == pytest.approx(4.3027 * (7 / 3) ** 0.5, abs=1e-3)


def test_people_with_as_many_sessions_count_by_their_means() -> None:
    values, people = array(0, 2, 3, 5, 9, 11), np.asarray([0, 0, 1, 1, 2, 2])
    found = weighted_mean(values, np.ones(6), people)

    # Means 1, 4 and 10: mean 5, squares 16 + 1 + 25 = 42, variance 42 / 2 / 3 = 7.
    assert found.value == pytest.approx(5)
    assert found.variance == pytest.approx(7)
    assert found.freedom == pytest.approx(2)


def test_weights_are_those_of_the_sessions() -> None:
    found = weighted_mean(array(10, 20), array(3, 1), np.arange(2))

    # (3 * 10 + 20) / 4. With one session a person, people are alike by nothing but themselves:
    # shares 3/4 and 1/4, sum of squares 10/16; residuals -2.5 and 7.5.
    # 9/16 * 6.25 / (1 - 3/2 + 5/8) + 1/16 * 56.25 / (1 - 1/2 + 5/8) = 28.125 + 3.125.
    assert found.value == pytest.approx(12.5)
    assert found.variance == pytest.approx(31.25)
    # Two people leave one degree of freedom, whatever their shares.
    assert found.freedom == pytest.approx(1)


def test_a_person_with_most_of_the_sessions_leaves_few_degrees_of_freedom() -> None:
    random = np.random.default_rng(3)
    people = np.repeat(np.arange(5), [60, 15, 15, 15, 15])
    values = random.normal(0, 1, 120) + random.normal(0, 4, 5)[people]

    # Half of the weight is one person's: less than 2 instead of 4.
    assert weighted_mean(values, np.ones(120), people).freedom < 2


def test_a_single_person_and_equal_values_have_no_error() -> None:
    found = weighted_mean(array(1, 3), np.ones(2), np.zeros(2, dtype=np.int64))
    assert (found.value, found.variance, found.half_width) == (2, None, None)
    assert found.columns("x") == {"x": 2, "x_low": None, "x_high": None}
    found = weighted_mean(np.full(4, 7.0), np.ones(4), np.asarray([0, 0, 1, 1]))
    assert (found.value, found.variance, found.half_width) == (7, 0, 0)
    # Unknown persons are one unit and no person.
    people = np.asarray([UNKNOWN_PERSON, UNKNOWN_PERSON, 1, 2])
    found = weighted_mean(array(1, 3, 2, 2), np.ones(4), people)
    assert (found.people, found.variance is None) == (2, False)


def test_the_same_people_in_two_parts_are_compared_with_themselves() -> None:
    after = Part(array(60, 70, 83), np.ones(3), np.arange(3))
    before = Part(array(50, 60, 70), np.ones(3), np.arange(3), sign=-1)
    found = means_sum(after, before)

    # Own differences 10, 10, 13: mean 11, squares 1 + 1 + 4 = 6, variance 6 / 2 / 3 = 1.
    assert found.people == 3
    assert found.value == pytest.approx(11)
    assert found.variance == pytest.approx(1)
    assert found.freedom == pytest.approx(2)


def test_the_variances_of_other_people_are_added() -> None:
    first = Part(array(1, 2, 6), np.ones(3), np.arange(3))
    second = Part(array(4, 5, 9), np.ones(3), np.arange(3, 6), sign=-1)
    found = means_sum(first, second)

    # 7 / 3 each, as above. Degrees of freedom after Welch with equal variances: 2 + 2.
    assert found.value == pytest.approx(-3)
    assert found.variance == pytest.approx(14 / 3)
    assert found.freedom == pytest.approx(4)
    # Who is unknown before is not who is unknown after.
    unknown = np.asarray([UNKNOWN_PERSON, 1, 2])
    apart = np.asarray([UNKNOWN_PERSON, 3, 4])
    same = [
        means_sum(replace(first, people=a), replace(second, people=b))
        for a, b in ((unknown, apart), (np.arange(3), np.arange(3, 6)))
    ]
    assert same[0].variance == pytest.approx(same[1].variance)
    assert same[0].people == 2


def test_a_part_of_a_single_person_leaves_no_error() -> None:
    both, one = (
        Part(array(1, 3), np.ones(2), np.arange(2)),
        Part(array(2), np.ones(1), np.zeros(1, dtype=np.int64)),
    )

    assert means_sum(both, one).variance is None
    assert means_sum(both, one).value == 4


PEOPLE = ["p1", "p2", "p3"]
NONE = rows([], [], [])
DAYS = [DAY] * 3


def anchors(
    former: list[float], new: list[float], people: list[str | None], weights: list[float]
) -> pl.DataFrame:
    return rows(former, people, [DAY] * len(former)).select(
        "organization_id",
        "session_id",
        "session_date",
        "person",
        former_score=pl.Series(former),
        new_score=pl.Series(new),
        weight=pl.Series(weights),
    )


def test_the_agents_part_is_the_shift_without_the_judges_part() -> None:
    given = anchors([50, 60, 70], [53, 62, 74], [*PEOPLE], [1, 1, 1])
    found = split(given, rows([50, 60, 70], PEOPLE, DAYS), rows([60, 70, 83], PEOPLE, DAYS))

    # Differences 3, 2, 4: mean 3, variance 1 / 3. Means before 60 and after 71: a shift of 11.
    # The same people: each one's own shift less the judge's part, 10 - 3, 10 - 2 and 13 - 4: mean
    # 8, variance 2 / 2 / 3. Added variances (before 100 / 3, after 266 / 6, 1 / 3) would be 78.
    half = 4.3027 * (1 / 3) ** 0.5  # 2 degrees of freedom
    expected = {
        "former_anchor_score": 60,
        "new_anchor_score": 63,
        "judges_part": 3,
        "half_width": half,
        "judges_part_low": 3 - half,
        "judges_part_high": 3 + half,
        "before_score": 60,
        "before_sessions": 3,
        "after_score": 71,
        "after_sessions": 3,
        "shift": 11,
        "agents_part": 8,
        "agents_part_low": 8 - half,
        "agents_part_high": 8 + half,
        "people": 3,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-3)
    assert (found["trend"], found["reason"], found["clustered_by"]) == ("bridged", None, "person")


def test_an_anchor_weighs_as_its_probability_was_low() -> None:
    given = anchors([50, 50], [54, 50], ["p1", "p2"], [3, 1])
    found = split(given, NONE, NONE)

    # Three times 4 and once 0, by 4; 50 + 3.
    assert (found["judges_part"], found["new_anchor_score"]) == (3, 53)
    assert (found["before_score"], found["after_score"]) == (None, None)
    assert not {"shift", "agents_part"} & found.keys()


@pytest.mark.parametrize(
    ("differences", "trend"),
    # 25 people: standard error sd / 5, t = 2.064. sd 9: half-width 3.7; sd 10: 4.1.
    [(9.0, "bridged"), (10.0, "cut")],
)
def test_a_wide_judges_part_cuts_the_trend(differences: float, trend: str) -> None:
    # 12 times +d, 12 times -d and 0: variance 24 d^2 / 24 = d^2.
    signs = [1] * 12 + [-1] * 12 + [0]
    people = [f"p{number}" for number in range(25)]
    given = anchors([50] * 25, [50 + differences * sign for sign in signs], [*people], [1] * 25)

    found = split(given, NONE, NONE)
    assert found["trend"] == trend
    if trend == "cut":
        assert found["reason"] == "the judge's part is known to within 4.1 points only"


def test_a_single_person_cuts_the_trend() -> None:
    given = anchors([50, 60], [50, 60], ["p1", "p1"], [1, 1])

    assert split(given, NONE, NONE)["reason"] == "the anchors are of a single person"
    # In two organizations, too.
    in_two = given.with_columns(organization_id=pl.Series(["acme", "beta"]))
    assert split(in_two, NONE, NONE)["trend"] == "cut"


def test_where_persons_are_unknown_sessions_and_days_are_clusters() -> None:
    given = anchors([50, 60, 70], [51, 62, 73], [None, "p1", "p2"], [1, 1, 1])
    found = split(given, NONE, NONE)

    assert (found["clustered_by"], found["people"]) == ("session and day", 3)
    known = anchors([50] * 6, [50] * 6, [None, "p1", "p1", "p2", "p2", "p3"], [1] * 6)
    found = split(known, NONE, NONE)
    assert (found["clustered_by"], found["people"]) == ("person", 3)


def test_periods_begin_on_the_day_of_the_change() -> None:
    days = [DAY + timedelta(days=number) for number in (0, 1, 3, 4, 5, 7, 8)]
    found = period_means(rows([60, 70, 80, 10, 20, 30, 99], [None] * 7, days), DAY)

    # June 1 to 4: (60 + 70 + 80) / 3; June 5 to 8: 20; the one score of June 9 is no mean.
    assert found.rows() == [(2, 70, 3), (6, 20, 3)]
    earlier = period_means(rows([60, 60, 90], [None] * 3, [date(2026, 5, 28)] * 3), DAY)
    assert earlier.rows() == [(-2, 70, 3)]


def test_a_simulated_change_is_split_as_it_was_made() -> None:
    row = simulated(4.0, 8.0).row
    assert row["judges_part_low"] < 4 < row["judges_part_high"]
    assert row["agents_part_low"] < 8 < row["agents_part_high"]
