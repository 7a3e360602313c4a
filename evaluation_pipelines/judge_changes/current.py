"""Judges of the settings, of the registered profiles and of the past, as plans to call them."""

from evaluation_pipelines.judge_changes.domain.drawing import SAMPLES
from evaluation_pipelines.judge_changes.domain.judges import Judge
from evaluation_pipelines.judging.domain.due import DEFAULT_PROFILE, JudgeSetup
from evaluation_pipelines.judging.domain.prompt.rubric import Rubric
from evaluation_pipelines.judging.ledger.rubric_texts import RubricTexts
from evaluation_pipelines.judging.plans import JudgePlan, judged_criteria
from evaluation_pipelines.judging.rubric_files import load_rubrics
from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.storage.stores import Stores


class NoSuchJudgeError(Exception):
    """A judge of the past cannot be asked again; the message says what is missing."""


def current_judges(stores: Stores) -> dict[str, Judge]:
    """Return the judge that would score the next session, by profile.

    Profiles without a rubric that can be used are left out, and all without a configured model.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    settings = stores.settings
    model = settings.judge_model
    if model is None:
        return {}
    rubrics = load_rubrics(settings.judge_rubrics_dir)
    wanted = [(DEFAULT_PROFILE, 1, model, settings.judge_rubric)]
    wanted += [
        (
            *(profile.id, profile.version, profile.model or model),
            settings.judge_rubric if profile.id == DEFAULT_PROFILE else profile.rubric or "",
        )
        for profile in (each.profile for each in ProfileStore(stores.ledger).registry().newest())
        if profile.method != "heuristic" and profile.enabled
    ]
    return {
        profile_id: Judge(profile_id, version, model, rubric, rubrics[rubric].prompt_hash)
        for profile_id, version, model, rubric in wanted
        if rubric in rubrics
    }


def anchor_plan(stores: Stores, judge: Judge) -> JudgePlan:
    """Return the plan by which a judge, of today or of the past, scores an anchor.

    Raises:
        NoSuchJudgeError: The wording of its rubric or its profile version is not kept.
        LedgerError: The ledger cannot be used.
    """
    rubric = _rubric(stores, judge)
    criteria = rubric.criteria
    if judge.profile_id != DEFAULT_PROFILE:
        try:
            registry = ProfileStore(stores.ledger).registry()
            profile = registry.find(judge.profile_id, judge.profile_version).profile
        except ProfileError as error:
            raise NoSuchJudgeError(str(error)) from error
        criteria = judged_criteria(profile, rubric)
    setup = JudgeSetup(
        judge.profile_id,
        judge.profile_version,
        judge.rubric,
        judge.prompt_hash,
        judge.model,
        SAMPLES,
    )
    return JudgePlan(setup, rubric, criteria, asks_missing_tools=False)


def _rubric(stores: Stores, judge: Judge) -> Rubric:
    """Return the rubric with the wording that the judge used."""
    now = load_rubrics(stores.settings.judge_rubrics_dir).get(judge.rubric)
    if now is not None and now.prompt_hash == judge.prompt_hash:
        return now
    kept = RubricTexts(stores.ledger).find(judge.prompt_hash)
    if kept is None:
        raise NoSuchJudgeError(
            f"the wording of the rubric {judge.rubric} that it used (prompt hash "
            f"{judge.prompt_hash[:12]}) is neither in the rubric folder nor in the ledger"
        )
    return kept
