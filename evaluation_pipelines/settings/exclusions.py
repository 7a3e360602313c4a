"""Exclusion rules of users: which sessions are neither judged nor scored."""

from collections.abc import Mapping
from typing import TypeAlias

EXCLUDABLE = (
    "organization_id",
    "person_id",
    "team",
    "team_id",
    "user_id",
    "account_id",
    "repository",
    "branch",
    "environment",
    "agent_id",
    "session_id",
    "masque",
    "source_cli",
    "model",
    "classification_label",
)
"""The columns of ``agent_sessions`` that a rule may name."""


Rules: TypeAlias = Mapping[str, Mapping[str, str]]
"""Name of a rule -> column -> value; a rule matches a session that has all of its values."""


def check_rules(rules: Rules) -> None:
    """Reject rules without a name or a column, and rules with a column that is not excludable.

    Raises:
        ValueError: with the name of the first invalid rule.
    """
    for name, values in rules.items():
        if not name.strip() or not values:
            raise ValueError(f"rule {name!r} must have a name, and name at least one column")
        if unknown := sorted(values.keys() - set(EXCLUDABLE)):
            allowed = ", ".join(EXCLUDABLE)
            raise ValueError(f"rule {name!r} names {unknown[0]}, which is not one of: {allowed}")
