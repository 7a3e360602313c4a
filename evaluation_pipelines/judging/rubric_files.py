"""Loader of rubrics from the package and from a folder of the user.

A rubric is a folder with ``score.md``, ``missing_tools.md`` and ``criteria.yaml``; the name of the
folder is the name of the rubric. ``criteria.yaml`` is not read if ``score.md`` has no
``{{CRITERIA}}``.
"""

import re
from functools import cache
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judging.domain.prompt.rubric import (
    Rubric,
    RubricCriterion,
    lists_criteria,
    rubric_problems,
)
from evaluation_pipelines.profiles.domain.profile import JudgeProfile, ProfileError

SHIPPED_RUBRICS = Path(__file__).resolve().parent / "rubrics"

SCORE_FILE = "score.md"
MISSING_TOOLS_FILE = "missing_tools.md"
CRITERIA_FILE = "criteria.yaml"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MAX_BYTES = 256 * 1024


class RubricError(UserError):
    """A rubric cannot be used; the message names the file and the problem."""


class _CriterionEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)]
    description: Annotated[str, Field(min_length=1)]
    points: int


_CRITERIA = TypeAdapter(list[_CriterionEntry])


def load_rubrics(extra_folder: Path | None) -> dict[str, Rubric]:
    """Load all rubrics by name: the shipped ones, then those of the user.

    Args:
        extra_folder: Folder with one folder per rubric; files and hidden folders in it are ignored.
            ``None`` loads only the shipped rubrics.

    Raises:
        RubricError: A folder is missing or unreadable, a rubric is invalid, or two rubrics have the
            same name.
    """
    rubrics = {folder.name: _load(folder) for folder in _folders(SHIPPED_RUBRICS)}
    for folder in _folders(extra_folder) if extra_folder is not None else []:
        if folder.name in rubrics:
            raise RubricError(
                f"{folder}: a shipped rubric has the name {folder.name} already; rename the folder"
            )
        rubrics[folder.name] = _load(folder)
    return rubrics


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(
            each for each in parent.iterdir() if each.is_dir() and not each.name.startswith(".")
        )
    except OSError as error:
        raise RubricError(f"{parent}: the rubric folder cannot be read: {error}") from error


def _load(folder: Path) -> Rubric:
    if not _NAME.fullmatch(folder.name):
        raise RubricError(
            f"{folder}: {folder.name!r} is not a rubric name; "
            "use lowercase letters, digits, - and _"
        )
    template = _read(folder / SCORE_FILE)
    rubric = Rubric(
        name=folder.name,
        score_template=template,
        missing_tools_template=_read(folder / MISSING_TOOLS_FILE),
        criteria=_criteria(folder / CRITERIA_FILE) if lists_criteria(template) else (),
    )
    problems = rubric_problems(rubric)
    if problems:
        raise RubricError("\n".join(f"{folder}: {problem}" for problem in problems))
    return rubric


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise RubricError(f"{path}: larger than {_MAX_BYTES // 1024} KB; shorten it")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RubricError(f"{path}: cannot be read as UTF-8 text: {error}") from error


def _criteria(path: Path) -> tuple[RubricCriterion, ...]:
    return _parsed(path, _read(path))


@cache  # a build asks for the rubrics of each of its dates
def _parsed(path: Path, text: str) -> tuple[RubricCriterion, ...]:
    try:
        entries = _CRITERIA.validate_python(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise RubricError(f"{path}: is not valid YAML: {error}") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in each['loc']) or 'the file'}: {each['msg']}"
            for each in error.errors()
        )
        raise RubricError(
            f"{path}: must be a list of criteria with id, name, description, points: {faults}"
        ) from error
    return tuple(
        RubricCriterion(each.id, each.name, each.description, each.points) for each in entries
    )


def check_rubric(profile: JudgeProfile, extra_folder: Path | None) -> None:
    """Refuse a profile whose rubric does not exist.

    Raises:
        ProfileError: There is no such rubric; the message names those that there are.
        RubricError: As in :func:`load_rubrics`.
    """
    rubrics = load_rubrics(extra_folder)
    if profile.rubric is not None and profile.rubric not in rubrics:
        known = ", ".join(sorted(rubrics))
        raise ProfileError(
            f"{profile.id}: there is no rubric {profile.rubric}; known rubrics: {known}"
        )
