"""Drawing of anchors: how many of each stratum, always the same ones, each equally likely."""

from collections import Counter

import polars as pl

from evaluation_pipelines.judge_changes.domain.judge_change import (
    Stratum,
    allocate,
    draw,
    replacements,
)


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
