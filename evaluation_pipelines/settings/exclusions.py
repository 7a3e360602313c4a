"""Rules of the user that leave sessions out."""

from collections.abc import Mapping
from typing import TypeAlias

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
