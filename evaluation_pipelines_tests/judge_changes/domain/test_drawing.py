"""Drawing of anchors: how many of each stratum, always the same ones, each equally likely."""

from collections import Counter
from dataclasses import replace

import pytest

from evaluation_pipelines.judge_changes.domain.drawing import (
    Stratum,
    allocate,
    draw,
    replacements,
)
from evaluation_pipelines_tests.judge_changes.change_builders import frame_session

MIXED = [
    *(frame_session(number, "code", "aspen-4") for number in range(300)),
    *(frame_session(number, "code", "birch-4") for number in range(300, 390)),
    *(frame_session(number, "simple", "aspen-4") for number in range(390, 399)),
    frame_session(399, "simple", None),
]


def test_anchors_are_shared_out_in_proportion() -> None:
    sizes = {("a", "m"): 300, ("b", "m"): 90, ("c", "m"): 9, ("d", None): 1}

    # 120 of 400: 90, 27, 2.7 and 0.3; at least two of each stratum that has them.
    assert allocate(sizes, 120) == {("a", "m"): 90, ("b", "m"): 27, ("c", "m"): 2, ("d", None): 1}
    assert allocate(sizes, 400) == sizes
    assert allocate(sizes, 500) == sizes


def test_the_largest_remainders_are_rounded_up() -> None:
    sizes: dict[Stratum, int] = {("a", "m"): 55, ("b", "m"): 33, ("c", "m"): 12}

    # 10 of 100: 5.5, 3.3 and 1.2 (two at least): 5 + 3 + 2 = 10.
    assert allocate(sizes, 10) == {("a", "m"): 5, ("b", "m"): 3, ("c", "m"): 2}
    # 11: 6.05, 3.63 and 1.32: 6 + 3 + 2 = 11; 12: 6.6, 3.96, 1.44: 6 + 3 + 2, then b.
    assert allocate(sizes, 11) == {("a", "m"): 6, ("b", "m"): 3, ("c", "m"): 2}
    assert allocate(sizes, 12) == {("a", "m"): 6, ("b", "m"): 4, ("c", "m"): 2}


def test_many_small_strata_get_more_anchors_than_wanted() -> None:
    sizes: dict[Stratum, int] = {(f"label {number}", "m"): 10 for number in range(100)}

    assert set(allocate(sizes, 120).values()) == {2}


def test_a_drawing_has_known_probabilities() -> None:
    anchors = draw(MIXED, "change")

    drawn = Counter(each.session.stratum for each in anchors)
    assert sum(drawn.values()) == 120
    assert drawn["code", "aspen-4"] == 90
    by_stratum = {each.session.stratum: each.probability for each in anchors}
    assert by_stratum["code", "aspen-4"] == pytest.approx(90 / 300)
    assert by_stratum["simple", None] == 1
    # Each anchor stands for 1 / probability sessions: all 400 of them.
    assert sum(1 / each.probability for each in anchors) == pytest.approx(400)


def test_the_order_of_the_sessions_does_not_matter_and_the_change_does() -> None:
    keys = [each.session.key for each in draw(MIXED, "change")]

    assert [each.session.key for each in draw(MIXED[::-1], "change")] == keys
    assert {each.session.key for each in draw(MIXED, "another")} != set(keys)


def test_every_session_of_a_stratum_is_as_likely_as_the_others() -> None:
    sessions = [frame_session(number) for number in range(20)]
    times = Counter(
        each.session.key
        for number in range(1000)
        for each in draw(sessions, f"change {number}", wanted=5)
    )

    # 5 of 20 in 1000 drawings: 250 each, standard deviation sqrt(1000 * 0.25 * 0.75) = 13.7.
    assert sum(times.values()) == 5000
    assert all(abs(each - 250) < 5 * 13.7 for each in times.values())


def test_a_replaced_anchor_is_followed_by_the_next_of_its_stratum() -> None:
    anchors = draw(MIXED, "change")
    gone = [each for each in anchors if each.session.stratum == ("code", "birch-4")][:2]
    noted = [
        replace(each, replaced_because="its texts are no longer there") if each in gone else each
        for each in anchors
    ]
    assert replacements(anchors, MIXED, "change") == []

    more = replacements(noted, MIXED, "change")
    assert [each.session.stratum for each in more] == [("code", "birch-4")] * 2
    assert [each.place for each in more] == [27, 28]
    assert {each.session.key for each in more}.isdisjoint(each.session.key for each in anchors)
    # The order of the stratum is that of a larger drawing.
    larger = draw([each for each in MIXED if each.agent_model == "birch-4"], "change", 29)
    assert [each.session for each in more] == [each.session for each in larger[27:]]
    assert replacements([*noted, *more], MIXED, "change") == []


def test_a_stratum_that_was_not_drawn_from_stays_out() -> None:
    anchors = [replace(each, replaced_because="gone") for each in draw(MIXED[:3], "change")]

    more = replacements(anchors, [*MIXED[:4], MIXED[399]], "change")
    assert [each.session for each in more] == [MIXED[3]]


def test_a_stratum_without_further_sessions_stays_smaller() -> None:
    sessions = [frame_session(number) for number in range(3)]
    anchors = [replace(each, replaced_because="gone") for each in draw(sessions, "change")]

    assert replacements(anchors, sessions, "change") == []
