"""Files of labelled sessions: the shipped ones, and those of a folder of the user.

A file is YAML: one task with its clean session and flawed twins of it. ``docs/judges.md`` describes
the format.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judging.domain.prompt.rubric import FAILURE_TAGS
from evaluation_pipelines.judging.domain.validation.labelled import LabelledSession, twins

SHIPPED_SESSIONS = Path(__file__).resolve().parent.parent / "labelled_sessions"

_MAX_BYTES = 1024 * 1024
_Text = Annotated[str, Field(min_length=1)]


class LabelledSessionsError(UserError):
    """A file of labelled sessions cannot be used; the message names the file and the problem."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Step(_Entry):
    tool: _Text | None = None
    parameters: dict[str, Any] = {}
    result: str | None = None
    error: str | None = None
    success: bool | None = None
    reply: _Text | None = None
    prompt: _Text | None = None

    @model_validator(mode="after")
    def _is_one_step(self) -> "_Step":
        given = [each for each in (self.tool, self.reply, self.prompt) if each is not None]
        if len(given) != 1:
            raise ValueError("a step has one of tool, reply and prompt")
        return self


class _Flaw(_Entry):
    kind: Literal[FAILURE_TAGS]  # type: ignore[valid-type]
    severity: Literal["minor", "moderate", "severe"]
    why: _Text
    omit: list[str] = []
    replace: dict[str, _Step] = {}


class _Document(_Entry):
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    prompt: _Text
    agent_model: _Text | None = None
    steps: Annotated[dict[str, _Step], Field(min_length=1)]
    flaws: list[_Flaw] = []

    @model_validator(mode="after")
    def _has_a_call(self) -> "_Document":
        if not any(each.tool for each in self.steps.values()):
            raise ValueError("the steps have no tool call")
        return self


def load_labelled(folder: Path | None) -> list[LabelledSession]:
    """Load the shipped sessions, and those of ``folder`` if it is not ``None``.

    Raises:
        LabelledSessionsError: A file is unreadable or invalid, or two tasks have the same id.
    """
    folders = [SHIPPED_SESSIONS] + ([] if folder is None else [folder])
    sessions: list[LabelledSession] = []
    for path in (path for each in folders for path in _files(each)):
        loaded = _load(path)
        if any(each.task == loaded[0].task for each in sessions):
            raise LabelledSessionsError(f"{path}: another file has the id {loaded[0].task} already")
        sessions += loaded
    return sessions


def set_hash(sessions: Sequence[LabelledSession]) -> str:
    """Return the SHA-256 of a set of sessions: runs over the same set can be compared."""
    parts = [repr((each.name, each.kind, each.severity, each.steps)) for each in sessions]
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


def _files(folder: Path) -> list[Path]:
    try:
        found = sorted(each for each in folder.iterdir() if each.suffix in {".yaml", ".yml"})
    except OSError as error:
        raise LabelledSessionsError(f"{folder}: the folder cannot be read: {error}") from error
    if not found:
        raise LabelledSessionsError(f"{folder}: the folder has no .yaml file")
    return found


def _load(path: Path) -> list[LabelledSession]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise LabelledSessionsError(f"{path}: larger than {_MAX_BYTES // 1024} KB; split it")
        document = _Document.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        return twins(document.model_dump(exclude_unset=True))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LabelledSessionsError(f"{path}: cannot be read as YAML: {error}") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}"
            for each in error.errors()
        )
        raise LabelledSessionsError(f"{path}: {faults}") from error
    except ValueError as error:
        raise LabelledSessionsError(f"{path}: {error}") from error
