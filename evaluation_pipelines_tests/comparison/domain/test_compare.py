"""The comparison as a whole: groups, ranks, verdicts, frontier, and rules that it keeps."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.compare import (
    CHECKS,
    Comparison,
    Question,
    coverage,
    every_session_is_accounted_for,
    figures_lie_in_their_intervals,
    models_and_pairs_stand_once,
    no_model_got_worse,
    worst_sessions,
)
from evaluation_pipelines.comparison.domain.findings import verdict_list
from evaluation_pipelines.comparison.domain.models import name_of
from evaluation_pipelines_tests.world.runs import (
    QUESTION,
    SINCE,
    UNTIL,
    compared,
    model,
    run,
    sample,
    scores,
    three_models,
    worse_lately,
)


def pair(found: Comparison, a: str, b: str) -> dict[str, Any]:
    """The only row of two models."""
    return found.pairs.row(
        by_predicate=(pl.col("model_a") == a) & (pl.col("model_b") == b), named=True
    )


def test_a_real_difference_is_decided_and_a_false_one_is_not() -> None:
    found = compared(three_models())
    verdicts = {(row["model_a"], row["model_b"]): row["verdict"] for row in found.pairs.to_dicts()}
    assert verdicts == {
        ("aspen", "birch"): "A better",
        ("aspen", "cedar"): "not decided",
        ("birch", "cedar"): "B better",
    }
    ranks = {row["model"]: row["rank"] for row in found.models.to_dicts()}
    # Models between which nothing is decided share a place.
    assert ranks == {"aspen": 1, "birch": 3, "cedar": 1}
    assert pair(found, "aspen", "birch")["reason"] is None


def test_variants_of_one_model_are_compared_like_two_models() -> None:
    found = compared(
        [
            *sample("aspen", scores(85, 60), 0),
            *sample("aspen", scores(60, 60, seed=2), 60, model_variant="effort high"),
        ]
    )
    rows = found.models.select("model_variant", "runs", "rank").rows()
    assert rows == [(None, 60, 1), ("effort high", 60, 2)]
    (verdict,) = verdict_list(found)["pairs"]
    assert (verdict["model_a"], verdict["model_b"]) == ("aspen", "aspen (effort high)")
    assert verdict["verdict"] == "a_better"
    assert name_of(found.pairs.row(0, named=True), "_b") == "aspen (provider-a, effort high)"


def test_figures_of_a_model_by_hand() -> None:
    rows = [
        run(0, 90.0, cost_usd=0.25, total_tokens=900, active_ms=30_000.0),
        run(1, 40.0, cost_usd=0.75, total_tokens=None, active_ms=90_000.0),
        run(2, 0.0, is_disqualified=True, cost_usd=99.0),
    ]
    row = model(compared(rows), "model-a")
    assert (row["runs"], row["disqualified"], row["state"], row["rank"]) == (
        2,
        1,
        "insufficient",
        None,
    )
    assert (row["avg_score"], row["pass_rate"], row["avg_cost_usd"]) == (65, 0.5, 0.5)
    # 65 points for $0.50.
    assert (row["score_per_dollar"], row["cost_coverage"]) == (130, 1.0)
    assert (row["avg_tokens"], row["avg_duration_ms"]) == (900, 60_000)
    # 65 ± 12.7 * 25 leaves the scale on both sides; two costs are far from 100.
    assert (row["avg_score_low"], row["avg_score_high"]) == (0, 100)
    assert 0 <= row["avg_cost_usd_low"] < 0.5 < row["avg_cost_usd_high"]
    assert row["score_sd"] == pytest.approx(35.355, abs=1e-3)


def test_the_plain_mean_of_effective_scores_stands_beside_the_mean_of_people() -> None:
    rows = [
        # One person has three good runs of A, another a bad one: (270 + 10) / 4, (90 + 10) / 2.
        *(run(number, 90.0, model="a", person="ann") for number in range(3)),
        run(3, 10.0, model="a", person="ben"),
        # With B a person was asked once: (60 + 60 + 20) / 3 instead of 60.
        run(4, 60.0, model="b", person="ann"),
        run(5, 60.0, model="b", person="ben"),
        run(6, 60.0, model="b", person="cleo", people_score=20.0),
    ]
    found = compared(rows)
    a, b = model(found, "a"), model(found, "b")
    # By people B is better, by runs A.
    assert (a["avg_score"], b["avg_score"]) == (50, 60)
    assert (a["avg_effective_score"], b["avg_effective_score"]) == (70, pytest.approx(140 / 3))


@pytest.mark.parametrize(
    ("known", "expected"),
    [(8, True), (7, False)],  # of ten runs
)
def test_points_per_dollar_need_a_known_cost_of_four_in_five_runs(
    known: int, expected: bool
) -> None:
    costs = [0.5] * known + [None] * (10 - known)
    rows = [run(at, 80.0, cost_usd=cost) for at, cost in enumerate(costs)]
    row = model(compared(rows, Question(SINCE, UNTIL, min_runs=5)), "model-a")
    assert row["cost_coverage"] == known / 10
    assert (row["score_per_dollar"] == 160) is expected
    assert (row["on_frontier"] is True) is expected


def test_without_costs_runs_or_anything_to_compare_figures_are_unknown() -> None:
    row = model(compared([run(at, 80.0, cost_usd=0.0) for at in range(3)]), "model-a")
    assert (row["avg_cost_usd"], row["score_per_dollar"]) == (0, None)
    row = model(compared([run(0, 0.0, is_disqualified=True)]), "model-a")
    assert (row["runs"], row["disqualified"], row["avg_score"]) == (0, 1, None)
    assert (row["cost_coverage"], row["pass_rate"], row["score_sd"]) == (None, None, None)
    found = compared([])
    assert (found.models.height, found.pairs.height, found.regressions.height) == (0, 0, 0)
    assert coverage(found) == []


def test_profile_versions_and_sources_are_never_mixed() -> None:
    rows = [
        *sample("a", scores(80, 30), 0, effective_source="scorecard", profile_id="p"),
        *sample("a", scores(80, 30), 100, effective_source="scorecard", profile_id="q"),
        *sample("b", scores(60, 30), 200, effective_source="composite"),
        *sample("c", scores(60, 30), 300, effective_source="override", profile_id="p"),
    ]
    rows = [row | ({"profile_version": 1} if row["profile_id"] else {}) for row in rows] + sample(
        "d", scores(60, 30), 400, effective_source="scorecard", profile_id="p", profile_version=2
    )
    found = compared(rows)
    assert found.models.height == 5
    assert found.pairs.is_empty()


def test_mixed_and_unknown_models_have_rows_of_their_own_and_are_not_ranked() -> None:
    rows = [
        *three_models(),
        *sample("mixed", scores(99, 40), 900),
        *[row | {"model": None, "provider": None} for row in sample("x", scores(99, 40), 950)],
    ]
    found = compared(rows)
    states = dict(found.models.select("model", "state").iter_rows())
    assert (states["mixed"], states[None]) == ("mixed", "unknown model")
    assert found.models.filter(pl.col("state") != "ranked")["rank"].null_count() == 2
    assert found.pairs.height == 3


def test_the_verdict_follows_the_same_mix_of_tasks() -> None:
    # b is better at both tasks and does the hard one more often: as it stands a looks better.
    rows = [
        *sample("a", scores(90, 50, 4, 1), 0, task_class="easy"),
        *sample("a", scores(50, 10, 4, 2), 60, task_class="hard"),
        *sample("b", scores(96, 10, 4, 3), 100, task_class="easy"),
        *sample("b", scores(56, 50, 4, 4), 160, task_class="hard"),
    ]
    row = pair(compared(rows), "a", "b")
    assert row["difference"] > 15
    assert row["adjusted_difference"] == pytest.approx(-6, abs=2)
    assert row["verdict"] == "B better"


def test_a_difference_of_users_alike_may_be_chance_whatever_the_number_of_runs() -> None:
    # Twelve users of a and twelve others of b; each has the same score in all of 20 runs.
    own = scores(80, 24, 8, 3)
    rows = [
        run(100 * user + at, own[user] + at % 2, model="ab"[user // 12], person=f"user {user}")
        for user in range(24)
        for at in range(20)
    ]
    row = pair(compared(rows), "a", "b")
    assert (row["clustered_by"], row["people_a"], row["people_both"]) == ("person", 12, 0)
    assert row["verdict"] == "not decided"
    assert row["runs_needed"] > 240


def test_nobody_pays_more_for_less_on_the_frontier() -> None:
    rows = [
        *sample("best", scores(90, 30, 2, 1), 0, cost_usd=0.5),
        *sample("cheap", scores(70, 30, 2, 2), 100, cost_usd=0.1),
        *sample("dear", scores(80, 30, 2, 3), 200, cost_usd=0.6),
        *sample("few", scores(99, 5, 2, 4), 300, cost_usd=0.01),
    ]
    found = compared(rows)
    frontier = dict(found.models.select("model", "on_frontier").iter_rows())
    assert frontier == {"best": True, "cheap": True, "dear": False, "few": None}


def test_a_question_narrows_what_is_compared() -> None:
    rows = [
        run(0, classification_label="simple"),
        run(1, started_at=SINCE - timedelta(seconds=1)),
        run(2, started_at=SINCE),
        run(3, started_at=UNTIL),
        run(4, organization_id="other"),
        run(5, profile_id="p", profile_version=1, effective_source="scorecard"),
    ]
    everything = compared(rows)
    assert everything.runs["session_key"].to_list() == [
        f"s{number}#baseline-1" for number in (0, 2, 4, 5)
    ]
    for narrowed, number in (
        ({"label": "simple"}, 0),
        ({"organization": "other"}, 4),
        ({"profile": "p"}, 5),
    ):
        found = compared(rows, Question(SINCE, UNTIL, **narrowed))  # type: ignore[arg-type]
        assert found.runs["session_key"].to_list() == [f"s{number}#baseline-1"]


def test_the_worst_sessions_come_first_the_newest_of_equals_before_the_older() -> None:
    rows = [
        run(1, 30.0),
        run(2, 10.0, started_at=UNTIL - timedelta(days=5)),
        run(3, 10.0),
        run(4, None),
        *(run(number, 90.0) for number in range(5, 15)),
    ]
    worst = worst_sessions(compared(rows))
    assert worst["session_key"].to_list()[:3] == [f"s{number}#baseline-1" for number in (3, 2, 1)]
    assert worst.height == 10  # of 13 with a score


def test_with_enough_runs_and_a_small_difference_it_may_be_chance_and_no_more_is_promised() -> None:
    # Twelve people whose differences are 2, -4, 9, -3, ... with a mean of 2 and s = 5.06, each
    # from 20 runs a side that vary by 14 points: more runs than 5 points need.
    swing = np.tile([-14.0, 14.0], 10)
    apart = [2.0, -4, 9, -3, 7, 1, -5, 8, 3, -2, 6, 2]
    rows = [
        run(1000 * side + 20 * person + at, value, model="ab"[side], person=f"user {person}")
        for person, more in enumerate(apart)
        for side in (0, 1)
        for at, value in enumerate(70 + swing + (more if side == 0 else 0))
    ]
    row = pair(compared(rows), "a", "b")
    # 2 ± 2.201 * 5.06 / sqrt(12) = 2 ± 3.2
    assert row["adjusted_high"] == pytest.approx(2 + 2.200985 * np.std(apart, ddof=1) / 12**0.5)
    assert row["reason"] == "may be chance"
    assert row["runs_needed"] <= 240


def test_models_of_unlike_repositories_are_compared_within_each() -> None:
    # Both models score 90 in the shop and 60 in the lake; a works in the shop, b in the lake.
    swing = [-3.0, 0.0, 3.0, 0.0]
    shares = {("a", "shop"): 45, ("a", "lake"): 15, ("b", "shop"): 15, ("b", "lake"): 45}
    rows = [
        run(
            1000 * place + at,
            {"shop": 90.0, "lake": 60.0}[repository] + swing[(at + at // 12) % 4],
            model=model_name,
            repository=repository,
            person=f"user {at % 12}",
        )
        for place, ((model_name, repository), number) in enumerate(shares.items())
        for at in range(number)
    ]
    plain = pair(compared(rows), "a", "b")
    # 45 of 60 at 90 and 15 at 60, less the reverse: 82.5 - 67.5.
    assert plain["difference"] == pytest.approx(15, abs=0.5)
    assert plain["verdict"] == "A better"
    within = pair(compared(rows, replace(QUESTION, within="repository")), "a", "b")
    assert within["adjusted_difference"] == pytest.approx(0, abs=1)
    assert (within["verdict"], within["shared_classes"]) == ("not decided", 2)
    # A repository that is not known is one of its own.
    unknown = [row | {"repository": None} for row in rows]
    assert pair(compared(unknown, replace(QUESTION, within="repository")), "a", "b")[
        "adjusted_difference"
    ] == pytest.approx(plain["adjusted_difference"])


def test_models_whose_runs_all_score_the_same_are_compared_beside_others() -> None:
    # What the third model says of the kinds of task gives their difference an error.
    early, late = UNTIL - timedelta(days=25), UNTIL - timedelta(days=2)
    rows = [
        run(1, 16.0, model="c", person="ada", started_at=early),
        run(2, 73.0, model="c", person="ben", started_at=early, task_class="review"),
        run(3, 73.0, model="a", person="cyd", started_at=early),
        run(4, 73.0, model="a", person="ben", started_at=late, task_class="review"),
        run(5, 73.0, model="b", person="dan", started_at=early, task_class="review"),
        run(6, 73.0, model="b", person="ada", started_at=late),
    ]
    pairs = compared(rows).pairs
    (pair,) = pairs.filter(model_a="a", model_b="b").to_dicts()
    assert (pair["difference"], pair["runs_needed"]) == (0, None)


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compared([*three_models(), run(900, None), run(901, 0.0, is_disqualified=True)])


def test_a_sound_comparison_keeps_all_rules_and_each_is_named_as_its_function(
    found: Comparison,
) -> None:
    results = [rule(found) for rule in CHECKS]
    assert all(result.passed for result in results)
    assert [result.rule for result in results] == [rule.__name__ for rule in CHECKS]
    assert "nothing to score" in {line["why"] for line in coverage(found)}


def test_a_row_that_stands_twice_is_found(found: Comparison) -> None:
    models = replace(found, models=pl.concat([found.models, found.models]))
    assert not models_and_pairs_stand_once(models).passed
    pairs = replace(found, pairs=pl.concat([found.pairs, found.pairs]))
    assert models_and_pairs_stand_once(pairs).table == "model_comparison"
    assert not models_and_pairs_stand_once(pairs).passed


@pytest.mark.parametrize(
    "wrong", [pl.lit(1.0).alias("avg_cost_usd_low"), pl.lit(101.0).alias("avg_score")]
)
def test_a_figure_outside_of_its_interval_is_found(found: Comparison, wrong: pl.Expr) -> None:
    broken = replace(found, models=found.models.with_columns(wrong))
    result = figures_lie_in_their_intervals(broken)
    assert not result.passed
    assert result.examples[0] == "aspen (provider-a)"


def test_a_session_that_is_nowhere_is_found(found: Comparison) -> None:
    result = every_session_is_accounted_for(replace(found, models=found.models.head(2)))
    assert (result.passed, result.expected) == (False, "146 session windows")


def test_a_model_that_got_worse_is_a_warning() -> None:
    result = no_model_got_worse(compared(worse_lately()))
    assert (result.passed, result.severity) == (False, "warning")
    assert result.found == "a (provider-a) (code) got worse"
    assert result.examples[0].endswith("points since 2026-11-14")
