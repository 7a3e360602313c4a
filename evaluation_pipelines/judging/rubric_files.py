"""Loader of rubrics from the package and from a folder of the user.

A rubric is a folder with ``score.md``, ``missing_tools.md`` and ``criteria.yaml``; the name of the
folder is the name of the rubric. ``criteria.yaml`` is not read if ``score.md`` has no
``{{CRITERIA}}``.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
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
from evaluation_pipelines.settings import Settings

_LOG = logging.getLogger(__name__)

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


@dataclass(frozen=True, slots=True)
class Rubrics:
    """The rubrics that can be used, by name, and why the others cannot, by name of the folder."""

    usable: Mapping[str, Rubric]
    faults: Mapping[str, str]

    def find(self, name: str, where: str) -> Rubric:
        """Return a rubric.

        Args:
            name: Its name.
            where: What names it, for the message of the error.

        Raises:
            RubricError: It does not exist, or cannot be used.
        """
        if name in self.usable:
            return self.usable[name]
        if name in self.faults:
            raise RubricError(f"{where} names a rubric that cannot be used: {self.faults[name]}")
        known = ", ".join(sorted(self.usable))
        raise RubricError(
            f"{where} names the rubric {name}, which does not exist. Use one of: {known}"
        )


def read_rubrics(extra_folder: Path | None) -> Rubrics:
    """Read all rubrics: the shipped ones, then those of the user.

    A folder that cannot be used takes no other rubric with it.

    Args:
        extra_folder: Folder with one folder per rubric; files and hidden folders in it are ignored.
            ``None`` reads only the shipped rubrics.
    """
    usable = {folder.name: _load(folder) for folder in _folders(SHIPPED_RUBRICS)}
    faults = dict[str, str]()
    try:
        folders = [] if extra_folder is None else _folders(extra_folder)
    except RubricError as error:
        folders, faults[str(extra_folder)] = [], str(error)
    for folder in folders:
        if folder.name in usable:
            faults[str(folder)] = (
                f"{folder} is not read: a shipped rubric has the name {folder.name}. Rename the "
                "folder, and name it in your profiles."
            )
            continue
        try:
            usable[folder.name] = _load(folder)
        except RubricError as error:
            faults[folder.name] = str(error)
    return Rubrics(usable, faults)


def log_rubric_faults(settings: Settings) -> None:
    """Log the rubrics that cannot be used, at the start of a process that judges."""
    for fault in read_rubrics(settings.judge_rubrics_dir).faults.values():
        _LOG.warning("A rubric cannot be used, and profiles with it do not judge: %s", fault)


def load_rubrics(extra_folder: Path | None) -> Mapping[str, Rubric]:
    """Return the rubrics that can be used, by name, as :func:`read_rubrics`."""
    return read_rubrics(extra_folder).usable


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(
            path for path in parent.iterdir() if path.is_dir() and not path.name.startswith(".")
        )
    except OSError as error:
        raise RubricError(f"{parent}: the rubric folder cannot be read: {error}") from error


def _load(folder: Path) -> Rubric:
    if not _NAME.fullmatch(folder.name):
        raise RubricError(
            f"{folder}: {folder.name!r} is not a rubric name. "
            "Use lowercase letters, digits, - and _"
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
            raise RubricError(f"{path}: larger than {_MAX_BYTES // 1024} KB. Shorten it")
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
            f"{'.'.join(str(part) for part in details['loc']) or 'the file'}: {details['msg']}"
            for details in error.errors()
        )
        raise RubricError(
            f"{path}: must be a list of criteria with id, name, description, points: {faults}"
        ) from error
    return tuple(
        RubricCriterion(entry.id, entry.name, entry.description, entry.points) for entry in entries
    )


def check_rubric(profile: JudgeProfile, extra_folder: Path | None) -> None:
    """Refuse a profile whose rubric does not exist or cannot be used.

    Raises:
        ProfileError: The message names the rubrics that there are.
    """
    if profile.rubric is None:
        return
    try:
        read_rubrics(extra_folder).find(profile.rubric, profile.id)
    except RubricError as error:
        raise ProfileError(str(error)) from None
