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
        "The highest scores: a of acme (903 of 1000, 97% of its evaluations passed), "
        "b of acme (700 of 1000, 90% of its evaluations passed), "
        "c of beta (610 of 1000, 82% of its evaluations passed). "
        "Too few evaluations to say of 1 more."
    )
    assert relied_on(ROWS.head(1)).endswith("passed).")


def test_without_a_score_nothing_is_claimed() -> None:
    assert relied_on(ROWS.tail(1)).startswith("Not known yet: no agent has the 50 evaluations")
