"""Settings of judge profiles and scorecards."""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings

from evaluation_pipelines.settings.exclusions import check_rules
from evaluation_pipelines.settings.folder import LocalPath


def _checked(rules: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    check_rules(rules)
    return rules


class ScorecardSettings(BaseSettings):
    """Folder of profiles, placeholder cards, exclusions, audit sample."""

    profiles_dir: LocalPath = Field(
        default_factory=lambda known: known["data_dir"] / "profiles",
        description="folder of your own judge profiles, YAML; one with the id of a shipped profile "
        "replaces it; `profiles` in the data folder unless set",
    )
    allow_fallback: bool = Field(
        default=False,
        description="write a placeholder card at the midpoint for sessions that only a judge can "
        "score and none has scored; it does not count",
    )
    exclude_sessions: Annotated[dict[str, dict[str, str]], AfterValidator(_checked)] = Field(
        default_factory=dict,
        description="JSON object, name of a rule -> column of `agent_sessions` -> value: sessions "
        "that are neither judged nor scored, see docs/books.md",
    )
    audit_sample_size: int = Field(
        default=5, ge=0, description="sessions drawn at random every night for people to score"
    )
