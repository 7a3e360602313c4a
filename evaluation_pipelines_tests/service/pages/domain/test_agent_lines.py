"""The answer to "which agent may I rely on?"."""

import polars as pl

from evaluation_pipelines.service.pages.domain.agent_lines import relied_on

ROWS = pl.DataFrame(
    {
        "organization_id": ["acme", "acme", "beta", "beta", "acme"],
        "agent_id": ["a", "b", "c", "d", "e"],
        "score": [903, 700, 610, 500, None],
        "pass_rate": [0.97, 0.9, 0.82, 0.5, 1.0],
    }
)


def test_the_agents_with_the_highest_scores_are_named() -> None:
    assert relied_on(ROWS) == (
        "a (acme) 903, 97% passed · b (acme) 700, 90% passed · c (beta) 610, 82% passed · "
        "1 more has too few evaluations"
    )
    assert relied_on(ROWS.head(1)) == "a 903, 97% passed"


def test_without_a_score_nothing_is_claimed() -> None:
    assert relied_on(ROWS.tail(1)).startswith("Not known yet: no agent has the 50 evaluations")
