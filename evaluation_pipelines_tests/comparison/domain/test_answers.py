"""The first screen of the report: each question answered in a sentence, without statistics."""

import re
from dataclasses import replace
from datetime import timedelta
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
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.findings import findings
from evaluation_pipelines.comparison.domain.runs import MODELS
from evaluation_pipelines.schemas import DEMO_JUDGE
from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.comparison_builders import (
    UNTIL,
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
    return {each.name: each.sentence for each in answers_of(findings(found)[0], found)}


def spread(rows: list[Row], people: int, model: str | None = None) -> list[Row]:
    """Deal the runs of a model, or all of them, to a number of people."""
    return [
        row | {"person": f"user {at % people}"} if model in (None, row["model"]) else row
        for at, row in enumerate(rows)
    ]


def test_every_answer_is_without_statistics() -> None:
    found = said([row | {"provider": None} for row in three_models()])
    assert list(found) == [QUALITY, MONEY, COST, SURE, COVERAGE]
    text = "\n".join(found.values())
    assert re.search(r"\bp\b|Holm|MOVER|interval|signific|95%|null|None|nan", text) is None
    assert all(found[name].endswith(".") for name in (QUALITY, MONEY, SURE, COVERAGE))


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


def test_unknown_persons_give_no_answer() -> None:
    rows = [*named("a", 85, 0), *named("b", 65, 1)]
    found = said([row | {"person": None} for row in rows])
    why = "people are unknown for more than a fifth of a model's sessions"
    assert found[QUALITY] == f"no answer: {why}. So far a looks better than b."
    assert found[MONEY] == f"no answer: {why}."
    assert found[SURE] == f"low: {why}. {CAVEAT}"


def test_who_used_a_model_is_unknown_and_the_others_are_compared() -> None:
    rows = [*named("a", 85, 0), *named("b", 65, 1), *named("c", 86, 2, person=None)]
    found = said(rows)
    assert found[QUALITY].startswith("a (of the 2 comparable models). b scores ")
    assert found[QUALITY].endswith(". Most people who used c are unknown.")
    assert found[COVERAGE].endswith(f"Not compared: c (people unknown). {ALL_12}")


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
    assert {each.name: each.sentence for each in code.answers} == answers(found)
    assert (simple.ranked, simple.sessions, simple.too_few) == (0, 5, "one model, 5")
    assert simple.answers == ()
    assert without_ranking(compared(rows[:96])) is None


def test_nothing_is_sure_of_what_a_script_scored() -> None:
    rows = [row | {"judge_model": DEMO_JUDGE} for row in [*named("a", 85, 0), *named("b", 65, 1)]]
    sure = said(rows)[SURE]
    assert sure.startswith("none, because a script scored. With a real judge: high: at most 5 of ")


def test_many_missing_models_are_counted() -> None:
    few = [row for at in range(7) for row in named(f"few-{at}", 80, 10 + at, 3)]
    found = said([*named("a", 85, 0), *named("b", 70, 1), *few])
    assert found[COVERAGE].endswith(f" and 2 more. {ALL_12}")
    assert found[COVERAGE].count("few-") == 5


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


def test_models_of_different_days_are_compared() -> None:
    rows = [
        row | {"started_at": UNTIL - timedelta(days=2 + 2 * (at % 8) + (at >= 48))}
        for at, row in enumerate([*named("aspen", 90, 0), *named("birch", 60, 1)])
    ]
    assert compared(rows).pairs["shared_days"].to_list() == [0]
    assert said(rows)[QUALITY].startswith("aspen. ")
