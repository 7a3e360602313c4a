"""What a judge run can be asked for, when it is launched."""

import dagster as dg
from pydantic import Field

from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.plans import PlanOverrides
from evaluation_pipelines.judging.runner.run_request import RunRequest


class JudgeConfig(dg.Config):
    """Configuration of a run that judges a range of dates; left alone it judges what is due."""

    force: bool = Field(
        default=False, description="Judge again what is scored or has failed for good."
    )
    obsolete: bool = Field(
        default=False, description="Judge again what was scored by other words than today's."
    )
    include_thin: bool = Field(
        default=False, description="Judge sessions of which no text was logged, too."
    )
    profile: str | None = Field(default=None, description="Only this judge profile.")
    model: str | None = Field(default=None, description="Another model than EVAL_JUDGE_MODEL.")
    samples: int | None = Field(
        default=None, ge=1, le=15, description="How often each session is scored."
    )
    sample_rate: float | None = Field(
        default=None, ge=0, le=1, description="Share of the sessions that is judged."
    )
    max_sessions: int | None = Field(
        default=None, ge=0, description="At most so many; EVAL_JUDGE_MAX_SESSIONS holds as well."
    )
    max_cost_usd: float | None = Field(
        default=None, ge=0, description="At most so much; EVAL_JUDGE_MAX_COST_USD holds as well."
    )
    triggered_by: str | None = Field(
        default=None, description="Who asked for it; the id of the run unless it is said."
    )

    def order(self, run_id: str) -> RunRequest:
        """What the run is asked to do."""
        return RunRequest(
            triggered_by=self.triggered_by or run_id,
            asked=ExtraDue(
                force=self.force, include_thin=self.include_thin, obsolete=self.obsolete
            ),
            max_sessions=self.max_sessions,
            max_cost_usd=self.max_cost_usd,
        )

    def overrides(self) -> PlanOverrides:
        """What it does otherwise than the settings say."""
        return PlanOverrides(self.profile, self.model, self.samples, self.sample_rate)


class SessionConfig(dg.Config):
    """Configuration of a run that scores one session."""

    session: str = Field(description="A session key, or a session id that has one window.")
    organization: str | None = Field(
        default=None, description="Organization, where several have such a session."
    )
    force: bool = Field(
        default=False, description="Score it again although there is a scoring that has ended."
    )
    by: str | None = Field(
        default=None, description="Who asks; the id of the run unless it is said."
    )
