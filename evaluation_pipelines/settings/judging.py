"""Settings of the judge, of scorecards and of comparisons."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from evaluation_pipelines.schemas import SCORE_FLAGS
from evaluation_pipelines.settings.data import (
    LocalPath,
    SettingsSection,
    decoded,
    split_names,
)
from evaluation_pipelines.settings.exclusions import check_rules

_OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class JudgeEndpoint:
    """Endpoint and model of the judge."""

    base_url: str
    model: str
    api_key: SecretStr | None


def _base_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must start with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None or parts.query:
        raise ValueError("must hold neither password nor parameters: keys go to OPENAI_API_KEY")
    return url


def _none_if_named(text: object) -> object:
    return None if isinstance(text, str) and text.strip().lower() == "none" else text


def _flags_of(text: object) -> object:
    """Return the flags that a setting names: ``all``, ``none``, or names with commas."""
    if not isinstance(text, str):
        return text
    names = [word.strip().lower() for word in text.split(",") if word.strip()]
    if names in (["all"], ["true"], ["1"]):
        return tuple(SCORE_FLAGS)
    if names in (["none"], ["false"], ["0"]):
        return ()
    if unknown := [name for name in names if name not in SCORE_FLAGS]:
        raise ValueError(f"{unknown[0]} is not one of: all, none, {', '.join(SCORE_FLAGS)}")
    return tuple(names)


def _personal_data(value: object) -> object:
    return () if _none_if_named(value) is None else split_names(value)


PersonalData: TypeAlias = Literal["email", "card", "iban", "ssn", "phone", "ip", "home"]
"""Kinds of personal data that redaction knows."""


_BaseUrl = Annotated[str, AfterValidator(_base_url)]


class JudgeEndpointSettings(SettingsSection):
    """Endpoint of the judge and limits of its use."""

    openai_base_url: _BaseUrl | None = Field(
        default=None,
        validation_alias="OPENAI_BASE_URL",
        description="any OpenAI-compatible endpoint, such as `http://localhost:8000/v1`. "
        f"`{_OPENAI}` when only a key is set",
        repr=False,
    )
    openai_api_key: SecretStr | None = Field(
        default=None,
        validation_alias="OPENAI_API_KEY",
        description="key of the endpoint. Local servers need none",
        repr=False,
    )
    judge_model: str | None = Field(
        default=None,
        description="name of the model. Without it no model judges",
    )
    judge_temperature: Annotated[float | None, BeforeValidator(_none_if_named)] = Field(
        default=0.0,
        ge=0,
        le=2,
        description="temperature of the model. `none` omits it, for models that reject it",
    )
    judge_max_output_tokens: int = Field(
        default=4000,
        gt=0,
        description="maximum length of a reply. A truncated reply counts as failed",
    )
    judge_concurrency: int = Field(
        default=8,
        gt=0,
        le=1000,
        description="requests in flight at the same time, one more if a person waits",
    )
    judge_requests_per_minute: int | None = Field(
        default=None, gt=0, description="requests in any minute, unlimited unless set"
    )
    judge_tokens_per_minute: int | None = Field(
        default=None,
        gt=0,
        description="tokens in any minute, unlimited unless set",
    )
    judge_timeout_seconds: float = Field(
        default=300, gt=0, description="time limit of one request from start to end"
    )
    judge_mode: Literal["direct", "batch"] = Field(
        default="direct",
        description="`batch` sends due sessions to the endpoint's Batch API, which answers "
        "within a day. Requests for one session stay direct",
    )

    @property
    def judge_endpoint(self) -> JudgeEndpoint | None:
        """Endpoint of the judge; None if it is not configured (see ``why_no_judge``)."""
        if self.judge_model is None or self.why_no_judge is not None:
            return None
        return JudgeEndpoint(self.openai_base_url or _OPENAI, self.judge_model, self.openai_api_key)

    @property
    def why_no_judge(self) -> str | None:
        """Variable to set before sessions can be judged; None if the judge is configured."""
        if self.judge_model is None:
            return "no judge is configured: set EVAL_JUDGE_MODEL to the name of a model"
        if self.openai_base_url is None and self.openai_api_key is None:
            return (
                "no judge endpoint is configured: set OPENAI_BASE_URL to an OpenAI-compatible "
                "endpoint, or OPENAI_API_KEY to use OpenAI's own"
            )
        return None


class JudgeBudgetSettings(SettingsSection):
    """Budget of the judge."""

    judge_max_sessions: int | None = Field(
        default=None, ge=0, description="sessions in one run, unlimited unless set"
    )
    judge_max_cost_usd: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="US dollars that one run may spend, unlimited unless set",
    )
    judge_max_cost_per_day_usd: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="US dollars that all runs of a day (UTC) may spend, unlimited unless set",
    )
    judge_batch_price_factor: float = Field(
        default=0.5,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="price of a request in a batch as a share of the direct price",
    )
    judge_input_usd_per_mtok: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="US dollars per million input tokens of `EVAL_JUDGE_MODEL`, if the shipped "
        "price table lacks it or is wrong, 0 for a local model",
    )
    judge_cached_usd_per_mtok: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="the same for input tokens from the provider's cache. The price of input "
        "tokens unless set",
    )
    judge_output_usd_per_mtok: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        validate_default=True,
        description="the same for output tokens. Input and output are set together",
    )

    @property
    def judge_limits(self) -> str:
        """The limits of judge runs in words; empty without any."""
        sessions, of_run = self.judge_max_sessions, self.judge_max_cost_usd
        of_day = self.judge_max_cost_per_day_usd
        limits = [] if sessions is None else [f"{sessions} sessions a run"]
        limits += [] if of_run is None else [f"${of_run:.2f} a run"]
        limits += [] if of_day is None else [f"${of_day:.2f} a day"]
        return ", ".join(limits)

    @property
    def why_no_automatic_judging(self) -> str | None:
        """What to set before runs that no person starts may judge; None if a limit is set."""
        if self.judge_max_cost_usd is not None or self.judge_max_cost_per_day_usd is not None:
            return None
        return (
            "automatic judging is off because its cost has no limit: set "
            "EVAL_JUDGE_MAX_COST_PER_DAY_USD to switch it on"
        )

    @field_validator("judge_output_usd_per_mtok")
    @classmethod
    def _both_or_none(cls, output: float | None, info: ValidationInfo) -> float | None:
        paid = info.data.get("judge_input_usd_per_mtok")
        cached = info.data.get("judge_cached_usd_per_mtok")
        if (output is None) != (paid is None) or (output is None and cached is not None):
            raise ValueError(
                "EVAL_JUDGE_INPUT_USD_PER_MTOK and EVAL_JUDGE_OUTPUT_USD_PER_MTOK go together"
            )
        return output


class JudgeSettings(JudgeBudgetSettings, JudgeEndpointSettings):
    """All settings of the judge."""

    judge_rubric: str = Field(
        default="agent-methodology",
        min_length=1,
        description="rubric of sessions without a profile that has one",
    )
    judge_rubrics_dir: LocalPath | None = Field(
        default=None,
        description="folder of your own rubrics, in addition to the shipped ones",
    )
    judge_samples: int = Field(
        default=1,
        ge=1,
        le=15,
        description="how often each session is scored. The lower median counts",
    )
    judge_sample_rate: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="share of the sessions that is judged. The selection is stable",
    )
    judge_max_transcript_tokens: int = Field(
        default=100_000,
        ge=1000,
        description="maximum length of a transcript. The middle of a longer one is cut",
    )
    judge_redact_personal: Annotated[tuple[PersonalData, ...], BeforeValidator(_personal_data)] = (
        Field(
            default=("email", "card", "iban", "ssn", "phone"),
            description="personal data that is removed, separated by commas: `email`, `card`, "
            "`iban`, `ssn`, `phone`, `ip`, `home` (user names in paths), or `none`",
        )
    )
    judge_exclude_flagged: Annotated[tuple[str, ...], BeforeValidator(_flags_of)] = Field(
        default=(),
        description="flags whose scores do not count: `all`, or names with commas of "
        f"{', '.join(f'`{flag}`' for flag in SCORE_FLAGS)}. See docs/judging.md",
    )
    judge_fresh_sessions: int = Field(
        default=10, gt=0, description="newly ended sessions per sensor run"
    )


def _checked(rules: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    check_rules(rules)
    return rules


class ScorecardSettings(SettingsSection):
    """Folder of profiles, placeholder cards, exclusions, audit sample."""

    profiles_dir: LocalPath = Field(
        default_factory=lambda known: known["data_dir"] / "profiles",
        description="folder of your own judge profiles, YAML. One with the id of a shipped "
        "profile replaces it",
    )
    allow_fallback: bool = Field(
        default=False,
        description="write a placeholder scorecard, which does not count, if only a judge can "
        "score a session and none has",
    )
    exclude_sessions: Annotated[
        dict[str, dict[str, str]], BeforeValidator(decoded), AfterValidator(_checked)
    ] = Field(
        default_factory=dict,
        description="sessions that are neither judged nor scored: JSON object, rule -> column -> "
        "value, see docs/operations.md",
    )
    audit_sample_size: int = Field(
        default=5, ge=0, description="sessions drawn at random every night for people to score"
    )


class ComparisonSettings(SettingsSection):
    """What a comparison needs, and what it calls as good."""

    baseline_min: int = Field(
        default=5,
        ge=2,
        description="sessions on each side before a masque is compared with the baseline",
    )
    primary_outcome: str = Field(
        default="merged",
        description="outcome that effective score, judge and composite are tested against first. "
        "Set it before you look: docs/judging.md",
    )
    comparison_margin: float = Field(
        default=5.0,
        gt=0,
        le=100,
        description=(
            "points that a cheaper model may score below the best and still be best value"
        ),
    )
