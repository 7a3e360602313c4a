"""What a comparison says: answers, facts and value, each in a sentence, without statistics."""

import re
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.answers import (
    LOOK_ONCE,
    answers_of,
    caveat,
    label_answers,
    overview,
    without_ranking,
)
from evaluation_pipelines.comparison.domain.compare import Comparison, coverage
from evaluation_pipelines.comparison.domain.findings import findings, verdict_list
from evaluation_pipelines.comparison.domain.runs import MODELS
from evaluation_pipelines.reporting.domain.comparison_tables import pair_cells
from evaluation_pipelines.schemas import DEMO_JUDGE
from evaluation_pipelines_tests.world.rows import Row
from evaluation_pipelines_tests.world.runs import (
    compared,
    run,
    sample,
    scores,
    three_models,
)

QUALITY, MONEY, COST, SURE, COVERAGE = (
    *("Quality", "Value", "Cost per session"),
    *("Confidence", "Coverage"),
)
CAVEAT = caveat(MODELS)
ALL_12 = "All 12 people are compared."


def named(name: str, mean: float, start: int, number: int = 48, **columns: Any) -> list[Row]:
    """Runs of a model without a provider, whose seed is its place."""
    kept = {"provider": None} | columns
    return sample(name, scores(mean, number, seed=start + 1), 100 * start, **kept)


def said(rows: list[Row]) -> dict[str, str]:
    """Name -> answer for the label with the most runs."""
    return answers(compared(rows))


def answers(found: Comparison) -> dict[str, str]:
    """Name -> answer for the label with the most runs."""
    return {answer.name: answer.sentence for answer in answers_of(findings(found)[0], found)}


def spread(rows: list[Row], people: int, model: str | None = None) -> list[Row]:
    """Deal the runs of a model, or all of them, to a number of people."""
    return [
        row | {"person": f"user {at % people}"} if model in (None, row["model"]) else row
        for at, row in enumerate(rows)
    ]


def test_the_best_model_is_named_with_how_far_the_others_are_behind() -> None:
    found = compared([*named("aspen", 90, 0), *named("birch", 60, 1), *named("cedar", 59, 2)])
    (pair,) = (row for row in found.pairs.to_dicts() if row["model_b"] == "birch")
    shown = [f"{pair[f'adjusted_{end}']:.1f}" for end in ("difference", "low_holm", "high_holm")]
    # One figure for one difference: that of the table.
    behind = f"birch scores {shown[0]} points less than aspen ({shown[1]} to {shown[2]})"
    assert answers(found)[QUALITY].startswith(f"aspen. {behind} and cedar scores ")


def test_a_model_that_only_another_one_beats_is_not_compared_with_the_best() -> None:
    found = compared([*named("aspen", 90, 0), *named("birch", 70, 1), *named("cedar", 50, 2)])
    with_cedar = (pl.col("model_a") == "aspen") & (pl.col("model_b") == "cedar")
    verdict = pl.when(with_cedar).then(pl.lit("not decided")).otherwise("verdict")
    reason = pl.when(with_cedar).then(pl.lit("too few days")).otherwise("reason")
    changed = replace(found, pairs=found.pairs.with_columns(verdict=verdict, reason=reason))
    assert answers(changed)[QUALITY].endswith(
        " and cedar is worse than another model. No verdict between aspen and cedar."
    )


def test_two_equally_good_models_stay_open() -> None:
    rows = [row | {"provider": None} for row in three_models()]
    assert said(rows)[QUALITY].startswith("cedar or aspen (no clear winner). birch scores ")
    three = said([*rows, *named("elm", 85, 6)])
    assert re.match(r"\w+, \w+ or \w+ \(no clear winner\)\. birch scores ", three[QUALITY])
    alike = said([row for row in rows if row["model"] != "birch"])
    assert alike[QUALITY].startswith("inconclusive: cedar and aspen may be equally good.")


def test_models_that_differ_by_less_than_what_matters_are_said_to() -> None:
    small = ". Any difference is below 5 points."
    rows = [
        *sample("a", scores(80, 200, 3, 1), 0, provider=None),
        *sample("b", scores(80, 200, 3, 2), 500, provider=None),
    ]
    assert said(rows)[QUALITY] == f"inconclusive: b and a may be equally good{small}"
    worse = sample("c", scores(60, 200, 3, 3), 1000, provider=None)
    three = said([*rows, *worse])[QUALITY]
    assert three.startswith("b or a (no clear winner). c scores ")
    assert three.endswith(small)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_too_few_people_are_refused_in_every_answer(number: int) -> None:
    rows = [*named("a", 85, 0, cost_usd=0.4), *named("b", 65, 1, cost_usd=0.1)]
    found = said(spread(rows, number))
    few = f"too few people to decide ({number} of 5)"
    hint = " So far a looks better than b." if number in (3, 4) else ""
    assert found[QUALITY] == f"no answer: {few}.{hint}"
    assert found[MONEY] == f"no answer: {few}."
    who = "1 person, counted once" if number == 1 else f"{number} people, each counted once"
    assert found[SURE] == f"low: {few}. Based on {who}. {CAVEAT}"
    assert f"a ({number} of 5 people)" in found[COVERAGE]


def test_a_model_of_few_people_is_never_taken_and_named_as_missing() -> None:
    rows = [*named("a", 85, 0), *named("b", 65, 1), *spread(named("c", 86, 2), 3)]
    found = said(rows)
    assert found[QUALITY].startswith("a (of the 2 comparable models). b scores ")
    assert found[QUALITY].endswith(". Too few people used c (3 of 5).")
    assert found[COVERAGE] == (
        "144 of 144 sessions ranked. No verdict for 48 ranked sessions, because too few people "
        f"used their models. Not compared: c (3 of 5 people). {ALL_12}"
    )


def test_of_unknown_people_no_model_is_compared() -> None:
    rows = [*named("a", 85, 0), *named("b", 65, 1), *named("c", 86, 2, person=None)]
    found = said(rows)
    assert found[QUALITY].startswith("a (of the 2 comparable models). b scores ")
    assert found[QUALITY].endswith(". Most people who used c are unknown.")
    assert found[COVERAGE].endswith(f"Not compared: c (people unknown). {ALL_12}")
    none = said([row | {"person": None} for row in rows[:96]])
    why = "people are unknown for more than a fifth of a model's sessions"
    assert none[QUALITY] == f"no answer: {why}. So far a looks better than b."
    assert (none[MONEY], none[SURE]) == (f"no answer: {why}.", f"low: {why}. {CAVEAT}")


def test_many_missing_models_are_counted() -> None:
    few = [row for at in range(7) for row in named(f"few-{at}", 80, 10 + at, 3)]
    found = said([*named("a", 85, 0), *named("b", 70, 1), *few])[COVERAGE]
    assert found.endswith(f" and 2 more. {ALL_12}")
    assert found.count("few-") == 5


def test_a_verdict_names_the_people_and_sessions_that_it_rests_on() -> None:
    # 12 people used both; 6 of the 48 sessions of a are by 3 others, who are left out.
    rows = [*named("a", 85, 0), *named("b", 65, 1)]
    rows[:6] = [row | {"person": f"other {at % 3}"} for at, row in enumerate(rows[:6])]
    found = said(rows)
    assert found[QUALITY].startswith("a. ")
    who = "Based on 12 people, each counted once"
    assert f"{who}, and 90 of 96 ranked sessions. {CAVEAT}" in found[SURE]
    missing = "12 of 15 people are compared."
    assert found[COVERAGE].endswith(f" ranked. All models used are compared. {missing}")


def test_a_better_model_that_is_disqualified_more_is_not_taken_and_not_called_chance() -> None:
    out = [
        run(5000 + at, 10.0, model="a", provider=None, person=f"user {at}", is_disqualified=True)
        for at in range(12)
    ]
    compared_ones = [*named("a", 85, 0), *named("b", 65, 1), *out]
    (pair,) = compared(compared_ones).pairs.to_dicts()
    more = f"a scores {pair['adjusted_difference']:.1f} points more than b"
    why = f"{more}, but is disqualified more often"
    found = said(compared_ones)
    assert found[QUALITY] == f"inconclusive: {why}."
    assert found[SURE].startswith(f"low: {why}. Based on ")
    three = said([*compared_ones, *named("c", 40, 2)])
    assert three[QUALITY].startswith("b or a (no clear winner). c scores ")
    assert f". {why}. " in three[QUALITY]
    assert three[QUALITY].endswith(". No verdict between a and c.")


def test_models_without_a_common_task_are_not_called_equal() -> None:
    rows = [*named("a", 85, 0, task_class="debug"), *named("b", 85, 1, task_class="review")]
    assert said(rows)[QUALITY] == "no answer: no task class that both worked on."


def test_every_session_of_the_label_is_counted_with_why_it_is_left_out() -> None:
    rows = [
        *named("a", 85, 0),
        *named("b", 70, 1),
        *named("few", 85, 2, 7),
        *named("a", 85, 3, 4, is_disqualified=True),
        *named("mixed", 85, 4, 3),
        *[row | {"model": None} for row in named("x", 85, 5, 2)],
        run(900, None, reason="it has not ended yet", model="never", provider=None),
        *named("a", 85, 6, 6, effective_source="scorecard", profile_id="p", profile_version=1),
        *named("mixed", 85, 8, 2, effective_source="scorecard", profile_id="p", profile_version=1),
        *named("a", 85, 7, 5, classification_label="simple"),
    ]
    found = compared(rows)
    # 48 + 48 of 48 + 48 + 7 + 4 + 3 + 2 + 1 + 6 + 2; the last two have several models, too.
    assert answers(found)[COVERAGE] == (
        "96 of 121 sessions ranked. Not ranked: 7 (fewer than 30 comparable sessions of the "
        "model), 6 (scored by another profile or judge), 5 (several models), 4 (disqualified), 2 "
        "(no model named), 1 (no score). Not compared: few (7 of 30 sessions) and never (0 of 30 "
        "sessions). 12 of 13 people are compared."
    )
    assert [(line["what"], line["sessions"], line["why"]) for line in coverage(found)] == [
        ("ranked", 96, "in the ranking"),
        ("insufficient", 18, "the model has fewer than 30 sessions that are comparable"),
        ("mixed", 5, "several models, or variants of one, share the output: outside the ranking"),
        ("disqualified", 4, "a disqualifier was found: in no average"),
        ("unknown model", 2, "the model is missing in the telemetry: outside the ranking"),
        ("no score", 1, "it has not ended yet"),
    ]
    every, scale, once = overview(found)
    assert every == (
        "96 of 126 sessions are ranked. Not ranked: 18 (fewer than 30 comparable sessions of the "
        "model), 5 (several models), 4 (disqualified), 2 (no model named), 1 (no score)."
    )
    assert "Scores run from 0 to 100, and 50 passes." in scale
    assert once == LOOK_ONCE
    assert without_ranking(found) == (
        "Too few sessions (30 per model needed): simple (one model, 5)."
    )
    code, simple = label_answers(found)
    assert (code.ranked, code.sessions, code.people, code.too_few) == (96, 121, 12, None)
    assert {answer.name: answer.sentence for answer in code.answers} == answers(found)
    assert (simple.ranked, simple.sessions, simple.too_few) == (0, 5, "one model, 5")
    assert simple.answers == ()
    assert without_ranking(compared(rows[:96])) is None


def test_nothing_is_sure_of_what_a_script_scored() -> None:
    rows = [row | {"judge_model": DEMO_JUDGE} for row in [*named("a", 85, 0), *named("b", 65, 1)]]
    sure = said(rows)[SURE]
    start = (
        "none, because a script scored. With a real judge, confidence would be high: at most 5 in "
    )
    assert sure.startswith(start)


def test_one_model_alone_is_no_comparison() -> None:
    found = said(named("aspen", 90, 0, 30))
    assert found[QUALITY] == "nothing to compare: only aspen has at least 30 sessions."
    assert found[MONEY] == "nothing to compare."
    assert found[SURE] == "none: nothing is compared (12 people)."
    one = said(spread(named("aspen", 90, 0, 30), 1))
    assert one[SURE] == "none: nothing is compared (1 person)."


def test_without_any_session_there_is_nothing_to_say() -> None:
    assert overview(compared([])) == ()
    whole = overview(compared([*named("a", 85, 0), *named("b", 70, 1)]))
    assert whole[0] == "96 of 96 sessions are ranked."


def test_a_cheaper_model_that_is_as_good_is_taken_for_the_money() -> None:
    rows = [*named("a", 85.5, 1, 96, cost_usd=0.4), *named("b", 85, 0, 96, cost_usd=0.1)]
    costs = [float(str(row["cost_usd"])) * (1 + at % 5 / 10) for at, row in enumerate(rows)]
    found = said([row | {"cost_usd": cost} for row, cost in zip(rows, costs, strict=True)])
    # 1 - 0.1 / 0.4, and the same five costs on both sides, dealt to people in another order.
    assert found[MONEY].startswith("b. It costs 75% less than a (7")
    assert found[MONEY].endswith(" and is at most 5 points behind every other model.")
    assert found[SURE].startswith(
        "high: at most 5 in 100 such reports wrongly name a best value. Based on 12 people"
    )


def test_a_cheaper_model_that_is_worse_is_not_taken() -> None:
    found = said([*named("a", 85, 0, cost_usd=0.4), *named("b", 70, 1, cost_usd=0.1)])
    assert found[MONEY].startswith("no cheaper alternative. b costs 75% less than a but scores 1")
    assert " points less than a (" in found[MONEY]
    assert "more sessions" not in found[MONEY]


def test_a_cheaper_model_that_may_be_as_good_is_not_ruled_out() -> None:
    values = scores(60, 40, 25, seed=4)
    rows = [
        *sample("a", [value + 7 for value in values], 0, 8, provider=None, cost_usd=0.4),
        *sample("b", values[::-1], 100, 8, provider=None, cost_usd=0.1),
    ]
    found = said(rows)
    # More than the margin behind, but that may be chance: both answers say so.
    assert found[QUALITY].startswith("inconclusive: a and b may be equally good")
    start = "inconclusive. b costs 75% less than a but may be more than 5 points worse than the "
    assert re.match(rf"{start}best. It scores [5-9]\.\d points less than a \(", found[MONEY])


@pytest.mark.parametrize(
    ("seed", "needed"),
    [(4, r"About \d+ people would settle it"), (0, r"About \d+ more sessions per model would")],
)
def test_it_is_said_what_would_show_that_a_cheaper_model_is_as_good(seed: int, needed: str) -> None:
    # Eight people, who differ by more than their runs in one sample and by less in the other.
    values = scores(60, 80, 25, seed)
    wide = [
        *sample("a", [value + 1 for value in values], 0, 8, provider=None, cost_usd=0.4),
        *sample("b", values[::-1], 100, 8, provider=None, cost_usd=0.1),
    ]
    found = said(wide)[MONEY]
    assert found.startswith("inconclusive. b costs 75% less than a but may be more than ")
    assert re.search(f" {needed}", found)


def test_the_cheapest_one_may_lead_without_being_shown_to_be_as_good() -> None:
    values = scores(60, 40, 25, seed=4)
    rows = [
        *sample("a", [value + 1 for value in values], 0, 8, provider=None, cost_usd=0.1),
        *sample("b", values[::-1], 100, 8, provider=None, cost_usd=0.4),
    ]
    assert said(rows)[MONEY].startswith("inconclusive. a costs least and scores highest so far")


def test_a_model_that_is_disqualified_more_is_not_taken_for_the_money() -> None:
    out = [
        run(5000 + at, 10.0, model="b", provider=None, person=f"user {at}", is_disqualified=True)
        for at in range(12)
    ]
    rows = [*named("a", 85.5, 1, 96, cost_usd=0.4), *named("b", 85, 0, 96, cost_usd=0.1), *out]
    assert said(rows)[MONEY].endswith(
        " More sessions cannot settle it: it is disqualified more often than another model."
    )


def test_a_model_whose_bill_is_higher_is_not_taken_for_the_money() -> None:
    a = [
        row | ({"cost_usd": 8.0} if at // 12 == 0 else {})
        for at, row in enumerate(named("a", 85, 0, 96, cost_usd=0.1))
    ]
    found = said([*a, *named("b", 85.5, 1, 96, cost_usd=0.3)])
    # 0.1^(7/8) * 8^(1/8) = 0.1729 of 0.3 is 42% less; (7 * 0.1 + 8) / 8 = 1.0875.
    assert found[MONEY].startswith("inconclusive. A usual session with a costs 42% less than b")
    assert found[MONEY].endswith(
        "but its mean is not lower ($1.09, $0.30 with b). A few of its sessions are very "
        "expensive, or its tasks cost more."
    )
    assert "best value" not in found[SURE]


@pytest.mark.parametrize(
    ("free", "begin", "end"),
    [
        # 9 of 96 are less than a tenth.
        (9, "b. It ", " Not in the ratio: 9 of 96 sessions with b, which cost nothing."),
        (
            10,
            "unknown: 10 of 96 sessions with b cost nothing, and a ratio needs costs above 0",
            "",
        ),
    ],
)
def test_sessions_that_cost_nothing_are_said(free: int, begin: str, end: str) -> None:
    b = named("b", 85, 0, 96, cost_usd=0.1)
    some = [row | ({"cost_usd": 0.0} if at < free else {}) for at, row in enumerate(b)]
    found = said([*named("a", 85.5, 1, 96, cost_usd=0.4), *some])[MONEY]
    assert found.startswith(begin)
    assert found.endswith(end)


def test_the_cheapest_model_comes_first() -> None:
    found = compared([*named("a", 85, 0, cost_usd=0.4), *named("b", 70, 1, cost_usd=0.1)])
    assert answers(found)[COST] == "b $0.10 · a $0.40"


def test_unknown_costs_are_said() -> None:
    rows = [*named("a", 85, 0, cost_usd=0.4), *named("b", 70, 1, cost_usd=None)]
    found = said(rows)
    assert found[MONEY] == "unknown: too few sessions with b have a known cost."
    assert found[COST] == "a $0.40"
    free = said([row | {"cost_usd": 0.0} for row in rows])
    # Those of b are known, now.
    assert free[MONEY] == "no difference: sessions with these models cost nothing."
    none = said([row | {"cost_usd": None} for row in rows])
    assert none[COST] == "unknown: too few sessions have a known cost."
    assert none[MONEY] == "unknown: too few sessions with a or b have a known cost."


REASON = "only 8 sessions of one of the two models can be compared (30 needed)"


def costing(name: str, mean: float, start: int, number: int, cost: float, task: str) -> list[Row]:
    """Runs of a model that cost about the same."""
    rows = sample(name, scores(mean, number, seed=start), 100 * start, provider=None)
    return [
        row | {"task_class": task, "cost_usd": cost * (1 + at % 5 / 10)}
        for at, row in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def found() -> Comparison:
    """C is worse than a; b leads, but has only 8 runs in the task class of the others."""
    return compared(
        [
            *costing("a", 84, 1, 48, 0.4, "debug"),
            *costing("b", 88, 2, 48, 0.4, "review"),
            *costing("b", 84, 3, 8, 0.4, "debug"),
            *costing("c", 60, 4, 48, 0.1, "debug"),
        ]
    )


def test_a_refused_pair_has_no_corrected_interval(found: Comparison) -> None:
    rows = {(row["model_a"], row["model_b"]): row for row in found.pairs.iter_rows(named=True)}
    corrected = [
        f"{name}_{end}_holm" for name in ("adjusted", "cost_ratio") for end in ("low", "high")
    ]
    for pair in (("a", "b"), ("b", "c")):
        row = rows[pair]
        assert (row["verdict"], row["reason"]) == ("not decided", REASON)
        assert [row[name] for name in corrected] == [None] * 4
        # Its figure, and the interval of this pair alone, stay in the table.
        assert None not in (row["adjusted_difference"], row["adjusted_low"], row["cost_ratio_low"])
        assert not pair_cells(row, MODELS)[2].below
    assert rows["a", "c"]["verdict"] == "A better"
    assert rows["a", "c"]["adjusted_low_holm"] > 0
    listed = {(row["model_a"], row["model_b"]): row for row in verdict_list(found)["pairs"]}
    assert listed["b", "c"]["corrected_low"] is None
    assert listed["b", "c"]["low"] is not None


def test_both_answers_name_the_same_difference_which_is_shown(found: Comparison) -> None:
    said = {answer.name: answer.sentence for answer in answers_of(findings(found)[0], found)}
    pair = found.pairs.filter(pl.col("model_a") == "a", pl.col("model_b") == "c").row(0, named=True)
    shown = f"{pair['adjusted_difference']:.1f} points less than a ("
    assert f"c scores {shown}" in said["Quality"]
    money = said["Value"]
    assert money.startswith("no cheaper alternative. c costs 75% less than a but ")
    assert f"but scores {shown}" in money


def test_models_that_cannot_be_compared_are_not_called_equally_good(found: Comparison) -> None:
    said = answers_of(findings(found)[0], found)[0].sentence
    assert said.startswith("a or b. ")
    assert f". a and b cannot be compared: {REASON}" in said


def test_scores_without_any_spread_have_no_interval() -> None:
    rows = [run(at, 30.0, person=f"user {at % 2}", active_ms=60_000) for at in range(4)]
    row = compared(rows).models.row(0, named=True)
    assert (row["avg_score"], row["avg_score_low"], row["avg_score_high"]) == (30.0, None, None)
    assert (row["avg_duration_ms"], row["avg_duration_ms_low"]) == (60_000, None)
