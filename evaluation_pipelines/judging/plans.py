"""By what each session is judged: profile, rubric, criteria, model and samples."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judging.domain.due import JudgeSetup, Window
from evaluation_pipelines.judging.domain.prompt.rubric import Rubric, RubricCriterion
from evaluation_pipelines.judging.rubric_files import load_rubrics
from evaluation_pipelines.judging.session_windows import WindowKey, key_of
from evaluation_pipelines.profiles.domain.matching import assign, ranked
from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.profiles.domain.registry import Registry
from evaluation_pipelines.profiles.sync import sync_profiles
from evaluation_pipelines.schemas import UTC_TIME
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import Stores

DEFAULT_PROFILE = "default"
"""Judges the sessions for which no profile asks for a judge, by the settings."""

_MATCHED = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "classification_label": pl.String(),
        "ended_at": UTC_TIME,
    }
)


class JudgeNotReadyError(UserError):
    """Sessions cannot be judged as the settings stand; the message says what to set."""


@dataclass(frozen=True, slots=True)
class JudgePlan:
    """How one session is judged."""

    judging: JudgeSetup
    rubric: Rubric
    criteria: tuple[RubricCriterion, ...]


@dataclass(frozen=True, slots=True)
class PlanOverrides:
    """What one run does otherwise than the profiles and settings say; None is as they say."""

    profile: str | None = None
    model: str | None = None
    samples: int | None = None
    sample_rate: float | None = None

    @property
    def change_what_is_scored(self) -> bool:
        """Whether other scorings than those of an ordinary run come of it."""
        return self.profile is not None or self.model is not None


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of one run: one for each version of a profile with a judge, and the default."""

    by_version: Mapping[tuple[str, int], JudgePlan]
    default: JudgePlan
    registry: Registry
    overrides: PlanOverrides

    def of(self, windows: Collection[Window]) -> dict[WindowKey, JudgePlan | None]:
        """The plan for each session; None when the run is about a profile that is not for it.

        It is that of the best-matching profile with a judge, in the version that counts for the
        session; where none matches the default.
        """
        versions = self._versions(windows)
        return {key_of(each): self._plan(each, versions) for each in windows}

    def _plan(
        self, window: Window, versions: Mapping[tuple[str, str, str], int]
    ) -> JudgePlan | None:
        wanted = self.overrides.profile
        newest = [each.profile for each in self.registry.newest()]
        for profile in ranked(newest, window.classification_label):
            if profile.method != "heuristic" and wanted in {None, profile.id}:
                version = versions[(*key_of(window), profile.id)]
                return self.by_version[profile.id, version]
        return self.default if wanted in {None, DEFAULT_PROFILE} else None

    def _versions(self, windows: Collection[Window]) -> dict[tuple[str, str, str], int]:
        """(organization_id, session_key, profile_id) -> the version that counts."""
        names = _MATCHED.names()
        rows = [tuple(getattr(each, name) for name in names) for each in windows]
        assigned = assign(pl.DataFrame(rows, schema=_MATCHED, orient="row"), self.registry)
        return {(row[0], row[1], row[2]): row[3] for row in assigned.iter_rows()}


def load_plans(stores: Stores, now: datetime, overrides: PlanOverrides | None = None) -> Plans:
    """What settings, profiles and rubric files say, with what one run wants otherwise.

    Raises:
        JudgeNotReadyError: no model is set, or a rubric or profile that is named is not there.
        RubricError: a rubric cannot be used.
        LedgerError: the ledger cannot be used.
    """
    wanted, settings = overrides or PlanOverrides(), stores.settings
    rubrics = load_rubrics(settings.judge_rubrics_dir)
    model = wanted.model or settings.judge_model
    if model is None:
        raise JudgeNotReadyError("no judge is configured: set EVAL_JUDGE_MODEL to a model's name")
    registry = sync_profiles(stores, now).registry
    plans = {
        each.key: _of_profile(each.profile, rubrics, model, wanted)
        for each in registry.versions
        if each.profile.method != "heuristic"
    }
    if wanted.profile not in {None, DEFAULT_PROFILE, *(name for name, _ in plans)}:
        known = ", ".join(sorted({DEFAULT_PROFILE, *(name for name, _ in plans)}))
        raise JudgeNotReadyError(
            f"there is no profile {wanted.profile} with a judge, only: {known}"
        )
    return Plans(plans, _default(settings, rubrics, model, wanted), registry, wanted)


def judging_of(profile: JudgeProfile, prompt_hash: str, model: str) -> JudgeSetup:
    """By what a version of a profile judges; its own model comes before the one of the settings."""
    return JudgeSetup(
        profile.id,
        profile.version,
        profile.rubric or "",
        prompt_hash,
        profile.model or model,
        profile.samples,
        profile.sample_rate,
    )


def prompt_hashes(settings: Settings) -> dict[str, str]:
    """Rubric -> hash of its words as they are now.

    Raises:
        RubricError: a rubric cannot be used.
    """
    rubrics = load_rubrics(settings.judge_rubrics_dir)
    return {name: rubric.prompt_hash for name, rubric in rubrics.items()}


def _default(
    settings: Settings, rubrics: Mapping[str, Rubric], model: str, wanted: PlanOverrides
) -> JudgePlan:
    rubric = _named(rubrics, settings.judge_rubric, "EVAL_JUDGE_RUBRIC")
    judging = JudgeSetup(
        DEFAULT_PROFILE,
        1,
        rubric.name,
        rubric.prompt_hash,
        model,
        settings.judge_samples,
        settings.judge_sample_rate,
    )
    return JudgePlan(_overridden(judging, wanted), rubric, rubric.criteria)


def _of_profile(
    profile: JudgeProfile, rubrics: Mapping[str, Rubric], model: str, wanted: PlanOverrides
) -> JudgePlan:
    rubric = _named(rubrics, profile.rubric or "", f"profile {profile.id}")
    judging = judging_of(profile, rubric.prompt_hash, model)
    return JudgePlan(_overridden(judging, wanted), rubric, _criteria(profile, rubric))


def _criteria(profile: JudgeProfile, rubric: Rubric) -> tuple[RubricCriterion, ...]:
    """What the profile has judged, with the points that its weights make of 100."""
    described = {each.id: each.description for each in rubric.criteria}
    points = profile.judge_points
    return tuple(
        RubricCriterion(
            each.id,
            each.name or each.id.replace("_", " ").capitalize(),
            each.description or described.get(each.id, ""),
            points[each.id],
        )
        for each in profile.judged
    )


def _named(rubrics: Mapping[str, Rubric], name: str, where: str) -> Rubric:
    if name not in rubrics:
        known = ", ".join(sorted(rubrics))
        raise JudgeNotReadyError(f"{where} names the rubric {name}, which is not there: {known}")
    return rubrics[name]


def _overridden(judging: JudgeSetup, wanted: PlanOverrides) -> JudgeSetup:
    given: dict[str, Any] = {
        "model": wanted.model,
        "samples": wanted.samples,
        "sample_rate": wanted.sample_rate,
    }
    return replace(judging, **{name: each for name, each in given.items() if each is not None})
