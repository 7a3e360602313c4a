"""Of the made-up team's three models the comparison finds the difference there is, and no other."""

from collections.abc import Iterator
from datetime import UTC, date, datetime

import numpy as np
import polars as pl
import pytest

from evaluation_pipelines.comparison.compare_models import compare_models, last_days
from evaluation_pipelines.comparison.domain.compare import Comparison, Question
from evaluation_pipelines.comparison.domain.pairwise import NOT_DECIDED, Limits, pair_rows
from evaluation_pipelines.demo.landing import put_identities, put_telemetry
from evaluation_pipelines.people.identity_store import sync_identities
from evaluation_pipelines_tests.telemetry_generator.team import ASPEN, BIRCH, CEDAR
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

END = date(2026, 11, 21)


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    with open_workplace(tmp_path_factory.mktemp("models")) as workplace:
        put_telemetry(workplace.landing.root, END, lambda _days: None)
        # Some of the twelve send several ids.
        put_identities(workplace.settings.identities_path)
        sync_identities(workplace.stores, NOW)
        workplace.ingest()
        workplace.build()
        yield workplace


@pytest.fixture(scope="module")
def found(team: Workplace) -> Comparison:
    span = last_days(datetime(END.year, END.month, END.day, 6, tzinfo=UTC))
    return compare_models(team.stores, Question(*span, label="code"), NOW)


def verdicts(found: Comparison) -> dict[tuple[str, str], str]:
    rows = found.pairs.select("model_a", "model_b", "verdict").rows()
    return {(a, b): verdict for a, b, verdict in rows}


def test_the_worse_model_is_found_and_the_twin_is_not_called_different(found: Comparison) -> None:
    assert ASPEN.tool_failure == CEDAR.tool_failure < BIRCH.tool_failure
    assert ASPEN.calls_per_prompt == CEDAR.calls_per_prompt > BIRCH.calls_per_prompt
    # Some fifty runs of each do not always settle both pairs; what is settled is settled right.
    assert verdicts(found)["aspen-4", "birch-4-mini"] == "A better"
    assert verdicts(found)["aspen-4", "cedar-5"] == "not decided"
    assert verdicts(found)["birch-4-mini", "cedar-5"] in {"B better", "not decided"}
    ranks = dict(found.models.filter(pl.col("state") == "ranked").select("model", "rank").rows())
    assert ranks["birch-4-mini"] > ranks["aspen-4"] == ranks["cedar-5"] == 1


def test_prices_are_found_as_they_are(found: Comparison) -> None:
    cost = dict(found.models.select("model", "avg_cost_usd").rows())
    # A token costs a third, and there are fewer calls for a prompt.
    assert cost["birch-4-mini"] < min(cost["aspen-4"], cost["cedar-5"]) / 2
    frontier = found.models.filter(pl.col("model") == "birch-4-mini")["on_frontier"]
    assert frontier.to_list() == [True]


def test_intervals_are_clustered_by_the_twelve_developers(found: Comparison) -> None:
    ranked = found.models.filter(pl.col("state") == "ranked")
    assert set(ranked["clustered_by"]) == {"person"}
    assert set(ranked["clusters"]) <= {10, 11, 12}


def test_names_dealt_at_random_are_found_to_differ_about_as_often_as_chance_has_it(
    team: Workplace,
) -> None:
    """What is the same in truth is called different in 5 of 100 cases at most, for all pairs."""
    span = last_days(datetime(END.year, END.month, END.day, 6, tzinfo=UTC))
    runs = compare_models(team.stores, Question(*span, label="code"), NOW).runs
    scored = runs.filter(pl.col("score").is_not_null(), pl.col("model") != "mixed")
    random = np.random.default_rng(1)
    claims = 0
    for _ in range(60):
        dealt = pl.Series("model", random.choice(["a", "b", "c"], scored.height))
        rows = pair_rows(scored.with_columns(dealt), Limits(30))
        claims += any(row["verdict"] != NOT_DECIDED for row in rows)
    # 60 * 0.05 = 3 expected; more than 8 happen in 1 of 200 cases.
    assert claims <= 8
