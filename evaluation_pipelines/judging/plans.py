"""Judge plans of sessions: profile, rubric, criteria, model and samples."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judging.domain.due import DEFAULT_PROFILE, JudgeSetup, Window
from evaluation_pipelines.judging.domain.prompt.rubric import (
    Rubric,
    RubricCriterion,
    lists_criteria,
)
from evaluation_pipelines.judging.ledger.score_store import RubricTexts
from evaluation_pipelines.judging.rubric_files import (
    RubricError,
    Rubrics,
    load_rubrics,
    read_rubrics,
)
from evaluation_pipelines.judging.session_windows import WindowKey, window_key
from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.profiles.domain.registry import Registered, Registry, assign, ranked
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.profiles.sync import sync_profiles
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_KEY
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import Stores

PlanKey: TypeAlias = tuple[str, int]
"""Profile and version."""

_MATCHED = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "content_hash": pl.String(),
        "classification_label": pl.String(),
    }
)


class JudgeNotReadyError(UserError):
    """Sessions cannot be judged with the current settings; the message says what to set."""


@dataclass(frozen=True, slots=True)
class JudgePlan:
    """Setup, rubric and criteria for judging one session.

    Without ``asks_missing_tools`` the conversation ends with the score.
    """

    setup: JudgeSetup
    rubric: Rubric
    criteria: tuple[RubricCriterion, ...]
    asks_missing_tools: bool = True


@dataclass(frozen=True, slots=True)
class PlanOverrides:
    """Overrides of profiles and settings for one run; ``None`` overrides nothing.

    ``rubric`` is that of the settings: profiles keep theirs.
    """

    profile: str | None = None
    model: str | None = None
    samples: int | None = None
    sample_rate: float | None = None
    rubric: str | None = None

    @property
    def select_profile_or_model(self) -> bool:
        """Whether the run is limited to a profile or uses another model."""
        return self.profile is not None or self.model is not None


@dataclass(frozen=True, slots=True)
class Plans:
    """Plans of one run: one per version of each judge profile, and that of the settings.

    ``faults`` says why others are missing: their rubrics cannot be used. ``default_key`` is the
    place of the plan of the settings, which is that of the shipped profile ``default``.
    """

    by_version: Mapping[PlanKey, JudgePlan]
    faults: Mapping[PlanKey, str]
    default_key: PlanKey
    registry: Registry
    overrides: PlanOverrides

    @property
    def default(self) -> JudgePlan:
        """The plan of the settings, for sessions that no judge profile matches.

        Raises:
            RubricError: Its rubric cannot be used.
        """
        if self.default_key in self.faults:
            raise RubricError(self.faults[self.default_key])
        return self.by_version[self.default_key]

    def for_windows(
        self, windows: Collection[Window], cards: pl.DataFrame
    ) -> dict[WindowKey, JudgePlan | None]:
        """Return the plan of each session by window key, given its scorecards (CARD_VERSION).

        It is the plan of the best-matching judge profile in the version that applies to the
        session, or the default if no profile matches. ``None`` if the run is limited to another
        profile, or for one of ``faults_of``.
        """
        found = self._places(windows, cards)
        return {
            key: None if version is None else self.by_version.get(version) for key, version in found
        }

    def faults_of(self, windows: Collection[Window], cards: pl.DataFrame) -> dict[WindowKey, str]:
        """Return why sessions cannot be judged though a profile matches, by window key."""
        return {
            key: self.faults[place]
            for key, place in self._places(windows, cards)
            if place is not None and place in self.faults
        }

    def why_not_counted(self, label: str, plan: JudgePlan) -> str | None:
        """Return why a score would not count for sessions with a label; ``None`` if it would."""
        judged_by = plan.setup.profile_id
        best = next(iter(ranked(self.registry.newest(), label)), None)
        if best is None:
            return None  # without a profile the judge's total counts
        if best.id != judged_by:
            return (
                f"labeled {label}: profile {best.id} ({best.method}) scores that label. To count "
                "them, change its method to hybrid, or disable it"
            )
        if {criterion.id for criterion in best.judged}.isdisjoint(
            criterion.id for criterion in plan.criteria
        ):
            return (
                f"labeled {label}: the rubric {plan.rubric.name} has no criterion of "
                f"profile {best.id}. Write a profile of the method hybrid with this rubric"
            )
        return None

    def _places(
        self, windows: Collection[Window], cards: pl.DataFrame
    ) -> list[tuple[WindowKey, PlanKey | None]]:
        versions = self._versions(windows, cards)
        return [(window_key(window), self._place(window, versions)) for window in windows]

    def _place(
        self, window: Window, versions: Mapping[tuple[str, str, str], int]
    ) -> PlanKey | None:
        only = self.overrides.profile
        for profile in ranked(self.registry.newest(), window.classification_label):
            if profile.method != "heuristic" and only in {None, profile.id}:
                return profile.id, versions[(*window_key(window), profile.id)]
        return self.default_key if only in {None, DEFAULT_PROFILE} else None

    def _versions(
        self, windows: Collection[Window], cards: pl.DataFrame
    ) -> dict[tuple[str, str, str], int]:
        """Return the version that applies by (organization_id, session_key, profile_id)."""
        names = _MATCHED.names()
        rows = [tuple(getattr(window, name) for name in names) for window in windows]
        sessions = pl.DataFrame(rows, schema=_MATCHED, orient="row")
        assigned = assign(sessions, self.registry, cards)
        return {(row[0], row[1], row[2]): row[3] for row in assigned.iter_rows()}


def load_plans(stores: Stores, now: datetime, overrides: PlanOverrides | None = None) -> Plans:
    """Load the plans of one run from settings, profiles, rubric files and overrides.

    Raises:
        JudgeNotReadyError: No model is configured, or there is no profile of that name.
        LedgerError: The ledger cannot be used.
    """
    overrides = overrides or PlanOverrides()
    settings = stores.settings
    rubrics = read_rubrics(settings.judge_rubrics_dir)
    model = overrides.model or settings.judge_model
    if model is None:
        raise JudgeNotReadyError(
            "no judge is configured: set EVAL_JUDGE_MODEL to the name of a model"
        )
    RubricTexts(stores.ledger).keep(rubrics.usable.values(), now)
    registry = sync_profiles(stores, now).registry
    judged = [version for version in registry.versions if version.profile.method != "heuristic"]
    names = {DEFAULT_PROFILE, *(registered.profile.id for registered in judged)}
    if overrides.profile not in {None, *names}:
        raise JudgeNotReadyError(
            f"no judge profile is named {overrides.profile}. Use one of: {', '.join(sorted(names))}"
        )
    of_settings = partial(_default_plan, settings, rubrics, model, overrides)
    defaults = [registered.key for registered in judged if is_default(registered)] or [
        (DEFAULT_PROFILE, 1)
    ]
    makers: dict[PlanKey, Callable[[], JudgePlan]] = {
        registered.key: partial(_profile_plan, registered.profile, rubrics, model, overrides)
        for registered in judged
    }
    makers |= {key: partial(of_settings, key[1]) for key in defaults}
    plans, faults = dict[PlanKey, JudgePlan](), dict[PlanKey, str]()
    for key, make in makers.items():
        try:
            plans[key] = make()
        except RubricError as error:
            faults[key] = str(error)
    return Plans(plans, faults, defaults[-1], registry, overrides)


def is_default(registered: Registered) -> bool:
    """Return whether a profile is the shipped one that has rubric and model of the settings."""
    return registered.origin == "shipped" and registered.profile.id == DEFAULT_PROFILE


def judge_setup(profile: JudgeProfile, prompt_hash: str, model: str) -> JudgeSetup:
    """Return the setup of a judge profile; its model takes precedence over ``model``."""
    return JudgeSetup(
        profile.id,
        profile.version,
        profile.rubric or "",
        prompt_hash,
        profile.model or model,
        profile.samples,
        profile.sample_rate,
    )


def _default_plan(
    settings: Settings, rubrics: Rubrics, model: str, overrides: PlanOverrides, version: int
) -> JudgePlan:
    where = "EVAL_JUDGE_RUBRIC" if overrides.rubric is None else "--rubric"
    rubric = rubrics.find(overrides.rubric or settings.judge_rubric, where)
    setup = JudgeSetup(
        DEFAULT_PROFILE,
        version,
        rubric.name,
        rubric.prompt_hash,
        model,
        settings.judge_samples,
        settings.judge_sample_rate,
    )
    return JudgePlan(_override(setup, overrides), rubric, rubric.criteria)


def _profile_plan(
    profile: JudgeProfile, rubrics: Rubrics, model: str, overrides: PlanOverrides
) -> JudgePlan:
    rubric = rubrics.find(profile.rubric or "", f"profile {profile.id}")
    if not lists_criteria(rubric.score_template):
        raise RubricError(
            f"profile {profile.id} needs points for its criteria, but the rubric {rubric.name} "
            "lists none: add {{CRITERIA}} to its score.md, or name another rubric"
        )
    setup = judge_setup(profile, rubric.prompt_hash, model)
    return JudgePlan(_override(setup, overrides), rubric, judged_criteria(profile, rubric))


def judged_criteria(profile: JudgeProfile, rubric: Rubric) -> tuple[RubricCriterion, ...]:
    """Return the judged criteria of a profile with points of 100 by their weights."""
    described = {criterion.id: criterion.description for criterion in rubric.criteria}
    points = profile.judge_points
    return tuple(
        RubricCriterion(
            criterion.id,
            criterion.name or criterion.id.replace("_", " ").capitalize(),
            criterion.description or described.get(criterion.id, ""),
            points[criterion.id],
        )
        for criterion in profile.judged
    )


def _override(setup: JudgeSetup, overrides: PlanOverrides) -> JudgeSetup:
    values: dict[str, Any] = {
        "model": overrides.model,
        "samples": overrides.samples,
        "sample_rate": overrides.sample_rate,
    }
    return replace(setup, **{name: value for name, value in values.items() if value is not None})


@dataclass(frozen=True, slots=True)
class CurrentRubrics:
    """Rubrics of the judge profiles, and of the settings for all other sessions.

    Attributes:
        prompt_hashes: Hash of the words of each rubric, by its name.
        profiles: Newest version of each profile.
        default: Name of the rubric of the settings.
    """

    prompt_hashes: Mapping[str, str]
    profiles: Sequence[Registered]
    default: str

    def prompt_hash(self, label: str) -> str | None:
        """Return the hash for sessions with a label; ``None`` if their rubric cannot be used."""
        of_settings = [profile.profile for profile in self.profiles if is_default(profile)]
        judged = [
            profile for profile in ranked(self.profiles, label) if profile.method != "heuristic"
        ]
        has_own = bool(judged) and judged[0] not in of_settings
        return self.prompt_hashes.get((judged[0].rubric or "") if has_own else self.default)


def current_rubrics(stores: Stores) -> CurrentRubrics:
    """Return what would judge sessions now.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    rubrics = load_rubrics(stores.settings.judge_rubrics_dir)
    hashes = {name: rubric.prompt_hash for name, rubric in rubrics.items()}
    newest = ProfileStore(stores.ledger).registry().newest()
    return CurrentRubrics(hashes, newest, stores.settings.judge_rubric)


def current_prompt_hashes(stores: Stores, scores: Collection[Score]) -> dict[WindowKey, str | None]:
    """Return the hash of the rubric that would judge each session of ``scores`` now.

    Raises:
        As ``current_rubrics``, and LakeError if a file cannot be read.
    """
    rubrics = current_rubrics(stores)
    return {key: rubrics.prompt_hash(label) for key, label in labels(stores, scores).items()}


def labels(stores: Stores, scores: Collection[Score]) -> dict[WindowKey, str]:
    """Return the label of each session of ``scores``.

    Raises:
        LakeError: A file cannot be read.
    """
    keys, days = {score.session_key for score in scores}, {score.session_date for score in scores}
    is_scored = pl.col("session_key").is_in(sorted(keys))
    columns = [*SESSION_KEY, "classification_label"]
    rows = stores.lake.read(AGENT_SESSIONS, sorted(days), columns, is_scored)
    return {(row[0], row[1]): row[2] for row in rows.iter_rows()}
