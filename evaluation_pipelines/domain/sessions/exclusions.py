"""Sessions that rules of the user's leave out: they are neither judged nor scored."""

from collections.abc import Mapping
from typing import TypeAlias

import polars as pl

EXCLUDABLE = (
    "organization_id",
    "team_id",
    "user_id",
    "agent_id",
    "session_id",
    "masque",
    "source_cli",
    "model",
    "classification_label",
)
"""The columns of ``agent_sessions`` that a rule may name."""

Rules: TypeAlias = Mapping[str, Mapping[str, str]]
"""Name of a rule -> column -> value; a session must have all of them."""


def check_rules(rules: Rules) -> None:
    """Refuse rules that would leave out everything, or that name what nobody knows.

    Raises:
        ValueError: with the name of the first such rule.
    """
    for name, wanted in rules.items():
        if not name.strip() or not wanted:
            raise ValueError(f"rule {name!r} must have a name, and name at least one column")
        if unknown := sorted(wanted.keys() - set(EXCLUDABLE)):
            allowed = ", ".join(EXCLUDABLE)
            raise ValueError(f"rule {name!r} names {unknown[0]}, which is none of: {allowed}")


def excluded_by(rules: Rules) -> pl.Expr:
    """The name of the first rule that leaves a session out, as ``excluded_by``; null without."""
    named = [
        pl.when(pl.all_horizontal(pl.col(column) == value for column, value in wanted.items()))
        .then(pl.lit(name))
        .otherwise(None)
        for name, wanted in rules.items()
    ]
    return pl.coalesce(*named, pl.lit(None, pl.String)).alias("excluded_by")
