"""Run configuration of judge runs."""

import dagster as dg
from pydantic import Field

from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.plans import PlanOverrides
from evaluation_pipelines.judging.run import RunRequest

PATIENCE_S = 24 * 3600.0
"""Time that a run waits for another process that judges."""


class JudgeConfig(dg.Config):
    """Configuration of a run over a range of dates; by default it judges what is due."""

    force: bool = Field(
        default=False, description="Judge scored sessions and permanent failures again."
    )
    obsolete: bool = Field(
        default=False,
        description="Judge sessions scored with outdated prompts again.",
    )
    failed: bool = Field(
        default=False, description="Judge sessions whose scoring failed again, without a wait."
    )
    include_thin: bool = Field(
        default=False, description="Judge sessions without logged text, too."
    )
    profile: str | None = Field(default=None, description="Only this judge profile.")
    model: str | None = Field(default=None, description="Model instead of EVAL_JUDGE_MODEL.")
    samples: int | None = Field(
        default=None, ge=1, le=15, description="How often each session is scored."
    )
    sample_rate: float | None = Field(
        default=None, ge=0, le=1, description="Share of the sessions to judge."
    )
    max_sessions: int | None = Field(
        default=None, ge=0, description="Limit on sessions, in addition to EVAL_JUDGE_MAX_SESSIONS."
    )
    max_cost_usd: float | None = Field(
        default=None, ge=0, description="Limit on cost, in addition to EVAL_JUDGE_MAX_COST_USD."
    )
    triggered_by: str | None = Field(
        default=None, description="Requester of the run; by default the id of the run."
    )

    def run_request(self, run_id: str) -> RunRequest:
        """Return the request to judge."""
        return RunRequest(
            triggered_by=self.triggered_by or run_id,
            extra=ExtraDue(
                force=self.force,
                include_thin=self.include_thin,
                obsolete=self.obsolete,
                failed=self.failed,
            ),
            max_sessions=self.max_sessions,
            max_cost_usd=self.max_cost_usd,
            patience_s=PATIENCE_S,
        )

    def overrides(self) -> PlanOverrides:
        """Return the values that replace settings."""
        return PlanOverrides(self.profile, self.model, self.samples, self.sample_rate)


class SessionConfig(dg.Config):
    """Configuration of a run that scores one session."""

    session: str = Field(description="A session key, or a session id that has one window.")
    organization: str | None = Field(
        default=None, description="Organization, if several have such a session."
    )
    force: bool = Field(
        default=False, description="Score it again even if it has a finished scoring."
    )
    by: str | None = Field(
        default=None, description="Requester of the score; by default the id of the run."
    )
