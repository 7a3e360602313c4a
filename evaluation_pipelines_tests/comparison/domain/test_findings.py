"""What a comparison says in words, and numbers as people read them."""

import re
from typing import Any

import pytest

from evaluation_pipelines import formatting
from evaluation_pipelines.comparison.domain.answers import answers_of, facts
from evaluation_pipelines.comparison.domain.findings import Finding, findings
from evaluation_pipelines.comparison.domain.models import name_of
from evaluation_pipelines_tests.world.rows import Row
from evaluation_pipelines_tests.world.runs import (
    compared,
    sample,
    scores,
    three_models,
)


def answer(rows: list[Row]) -> Finding:
    """The only answer."""
    (found,) = findings(compared(rows))
    return found


def test_decided_pairs_are_facts_with_the_better_model_first() -> None:
    found = answer(three_models())
    assert found.is_decided
    said = "\n".join(facts(found))
    assert "aspen (provider-a) scores " in said
    assert " points more than birch (provider-a) with the same task mix (" in said
    assert ", based on 12 people." in said
    assert re.search(
        r"aspen \(provider-a\) scores \d\.\d points \w+ than cedar \(provider-a\) ", said
    )
    assert said.endswith(". No verdict: any difference is below 5 points.")
    assert not answer([row for row in three_models() if row["model"] != "birch"]).is_decided


def test_a_first_model_that_is_not_shown_to_beat_a_lower_one_has_a_sentence() -> None:
    # Of seven people; birch is shown to be worse than aspen, cedar varies too much for a verdict.
    rows = [
        *sample("aspen", scores(80, 42, 4, seed=1), 0, 7),
        *sample("birch", scores(60, 42, 4, seed=2), 100, 7),
        *sample("cedar", scores(74, 42, 30, seed=3), 200, 7),
    ]
    found = answer(rows)
    assert {row["model"]: row["rank"] for row in found.ranked} == {
        "aspen": 1,
        "cedar": 1,
        "birch": 2,
    }
    decided, first, below = facts(found)
    assert "aspen (provider-a) scores " in decided
    assert re.match(r"aspen \(provider-a\) scores .* points more than cedar \(provider-a\) ", first)
    assert re.match(r"birch \(provider-a\) scores .* points less than cedar \(provider-a\) ", below)
    assert ", which may be chance" in below
    # The same among the answers, of the model that may be chosen.
    assert re.search(
        r"cedar \(provider-a\) scores [\d.]+ points more than birch \(provider-a\), "
        r"which may be chance\.$",
        answers_of(found, compared(rows))[0].sentence,
    )


def test_many_such_pairs_are_counted() -> None:
    lower = [
        run
        for at in range(3)
        for run in sample(f"birch-{at}", scores(68, 42, 4, seed=at + 4), 300 + 100 * at, 7)
    ]
    rows = [
        *sample("aspen", scores(80, 42, 4, seed=1), 0, 7),
        *sample("cedar", scores(72, 42, 24, seed=3), 200, 7),
        *lower,
    ]
    assert [*facts(answer(rows))][-1] == "3 pairs with lower-ranked models have no verdict."


def test_it_is_said_how_many_runs_would_decide() -> None:
    # A variance of 30² * 40/39 = 923.1 on both sides; seven people with five or six runs each,
    # of which three are good or three are bad: +10 and -10 points around 60, or none.
    spread = [30.0, 90.0] * 20
    *_, said = facts(
        answer([*sample("aspen", spread, 0, 7), *sample("birch", spread[::-1], 100, 7)])
    )
    # (1.960 + 0.842)² * 2 * 923.1 / 5² + 1.960²/4 = 580.6 of independent runs.
    found = re.search(r"chance\. Detecting a 5-point difference needs about (\d+) sessions", said)
    assert found is not None
    assert int(found[1]) >= 581
    assert said.endswith(" sessions per model (now 40 and 40).")


def test_what_more_runs_would_not_change_is_not_asked_for() -> None:
    alike = [50.0 + at % 3 for at in range(48)]  # 0.8 points of spread; 7 people, 6 or 7 runs each
    rows = [*sample("aspen", alike, 0, users=7), *sample("birch", alike[::-1], 100, users=7)]
    (sentence,) = facts(answer(rows))
    assert sentence.startswith("aspen (provider-a) scores ")
    assert sentence.endswith(". No verdict: any difference is below 5 points.")

    tasks = ("debug", "refactor")
    apart = [
        run
        for at, task in enumerate(tasks)
        for run in sample(f"model-{at}", scores(80, 40, seed=at + 1), 100 * at, task_class=task)
    ]
    *_, said = facts(answer(apart))
    assert said.startswith("model-0 (provider-a) and model-1 (provider-a): ")
    assert "None" not in said
    assert "- points" not in said


def test_a_model_without_a_provider_and_an_unknown_one_have_names() -> None:
    rows = [
        *(row | {"provider": None} for row in sample("aspen", scores(90, 30), 0)),
        *(row | {"provider": None, "model": None} for row in sample("x", scores(90, 30), 100)),
        *(row | {"provider": "mixed"} for row in sample("mixed", scores(90, 30), 200)),
    ]
    names = [name_of(row) for row in answer(rows).models]
    assert (names[0], set(names[1:])) == ("aspen", {"mixed", "unknown"})


def test_the_group_with_most_runs_in_the_ranking_speaks_for_its_label() -> None:
    judged: dict[str, Any] = {
        "effective_source": "scorecard",
        "profile_id": "p",
        "profile_version": 1,
    }
    rows = [
        *sample("a", scores(80, 31), 0, **judged),
        *sample("b", scores(80, 29), 100, **judged),
        *sample("b", scores(80, 2), 150, **judged, judge_model="m", judge_flags="truncated"),
        *sample("a", scores(80, 40), 200),
        *sample("c", scores(80, 29), 300),
    ]
    first, second = findings(compared(rows))
    by = "profile p v1, judge m (2 flagged)"
    assert (first.scored_by, first.is_main) == (by, True)
    assert (second.scored_by, second.is_main) == ("composite", False)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (formatting.points(84.25), "84.3"),  # half up
        (formatting.number(3e40), "3e+40"),
        (formatting.number(float("inf")), "inf"),
        (formatting.points(None), "-"),
        (formatting.points(-0.04), "0.0"),
        (formatting.signed(2.0), "+2.0"),
        (formatting.signed(-2.0), "-2.0"),
        (formatting.signed(None), "-"),
        (formatting.usd(1234.5), "$1,234.50"),
        (formatting.usd(0.0), "$0.00"),
        (formatting.usd(0.0525), "$0.053"),
        (formatting.usd(0.0012), "$0.0012"),
        (formatting.usd(None), "-"),
        (formatting.percent(0.985), "99%"),
        (formatting.percent(None), "-"),
        (formatting.probability(0.0004), "< 0.001"),
        (formatting.probability(0.0471), "0.047"),
        (formatting.probability(None), "-"),
        (formatting.minutes(90_000), "1.5 min"),
        (formatting.minutes(None), "-"),
        (formatting.tokens(459_799), "460k"),
        (formatting.tokens(999), "999"),
        (formatting.tokens(None), "-"),
        (formatting.interval("1", "2"), "1 to 2"),
        (formatting.interval("-", "2"), ""),
        (formatting.listed(["a"]), "a"),
        (formatting.listed([]), ""),
        (formatting.listed(["a", "b", "c"], "or"), "a, b or c"),
    ],
)
def test_numbers_as_people_read_them(shown: str, expected: str) -> None:
    assert shown == expected
