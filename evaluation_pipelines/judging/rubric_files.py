"""Rubrics as files: those of the package, and those of a folder of the user's own.

A rubric is a folder, named as the rubric is, with ``score.md``, ``missing_tools.md`` and
``criteria.yaml``.
"""

import re
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judging.domain.prompt.rubric import (
    Rubric,
    RubricCriterion,
    rubric_problems,
)

SHIPPED_RUBRICS = Path(__file__).resolve().parent / "rubrics"

SCORE_FILE = "score.md"
MISSING_TOOLS_FILE = "missing_tools.md"
CRITERIA_FILE = "criteria.yaml"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_LARGEST_BYTES = 256 * 1024


class RubricError(UserError):
    """A rubric cannot be used; the message says which, where and why."""


class _CriterionEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)]
    description: Annotated[str, Field(min_length=1)]
    points: int


_CRITERIA = TypeAdapter(list[_CriterionEntry])


def load_rubrics(extra_folder: Path | None) -> dict[str, Rubric]:
    """All rubrics by name: the shipped ones, then those of the user.

    Args:
        extra_folder: Holds a folder for each rubric; plain files and hidden folders beside them
            are left alone.

    Raises:
        RubricError: a folder is missing or unreadable, a rubric has a fault, or two rubrics have
            one name.
    """
    rubrics = {folder.name: _load(folder) for folder in _folders(SHIPPED_RUBRICS)}
    for folder in _folders(extra_folder) if extra_folder is not None else []:
        if folder.name in rubrics:
            raise RubricError(
                f"{folder}: a shipped rubric is named {folder.name} already; rename the folder"
            )
        rubrics[folder.name] = _load(folder)
    return rubrics


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(
            each for each in parent.iterdir() if each.is_dir() and not each.name.startswith(".")
        )
    except OSError as error:
        raise RubricError(f"{parent}: the folder of rubrics cannot be read: {error}") from error


def _load(folder: Path) -> Rubric:
    if not _NAME.fullmatch(folder.name):
        raise RubricError(
            f"{folder}: {folder.name!r} is no name of a rubric; use small letters, digits, - and _"
        )
    rubric = Rubric(
        name=folder.name,
        score_template=_read(folder / SCORE_FILE),
        missing_tools_template=_read(folder / MISSING_TOOLS_FILE),
        criteria=_criteria(folder / CRITERIA_FILE),
    )
    problems = rubric_problems(rubric)
    if problems:
        raise RubricError("\n".join(f"{folder}: {problem}" for problem in problems))
    return rubric


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise RubricError(f"{path}: larger than {_LARGEST_BYTES // 1024} KB; shorten it")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RubricError(f"{path}: cannot be read as UTF-8 text: {error}") from error


def _criteria(path: Path) -> tuple[RubricCriterion, ...]:
    text = _read(path)
    try:
        entries = _CRITERIA.validate_python(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise RubricError(f"{path}: is no YAML: {error}") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(place) for place in each['loc']) or 'the file'}: {each['msg']}"
            for each in error.errors()
        )
        raise RubricError(
            f"{path}: must be a list of criteria with id, name, description, points: {faults}"
        ) from error
    return tuple(
        RubricCriterion(each.id, each.name, each.description, each.points) for each in entries
    )
