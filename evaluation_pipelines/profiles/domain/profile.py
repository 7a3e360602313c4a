"""Judge profiles: criteria, method and scale for the sessions with certain labels.

A profile is a YAML file under version control. Fields that change the meaning of a score (criteria,
scale, method, rubric, thresholds, disqualifiers) may change only together with ``version``. All
other fields, such as name, labels and sampling, may change freely.
"""

import hashlib
import json
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

import polars as pl
from pydantic import AwareDatetime, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.profiles.domain.heuristics import HEURISTICS, StrictModel, Thresholds

Method = Literal["heuristic", "llm", "hybrid"]

ANY_LABEL = "*"
DEFAULT_RISK_FRACTION = 0.4

VERSIONED = ("criteria", "scale", "method", "rubric", "thresholds", "disqualifiers")
"""Fields that may only change together with the version."""

_MAX_PATTERN = 1000


class ProfileError(UserError, ValueError):
    """An invalid profile; the message names the field, the problem and the allowed values."""


class Criterion(StrictModel):
    """One criterion; weights are relative and need not add up to a fixed sum."""

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.]{0,63}$")]
    name: str = ""
    description: str = ""
    weight: Annotated[float, Field(gt=0)] = 1.0


class Scale(StrictModel):
    """Lowest and highest score."""

    min: float = 0.0
    max: float = 100.0

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.min >= self.max:
            raise ValueError(f"min must be below max, not {self.min} and {self.max}")
        return self


_RUBRIC_CRITERIA = tuple(
    Criterion(id=criterion_id, name=criterion_id.replace("_", " ").capitalize(), weight=25)
    for criterion_id in ("logical_flow", "consistency", "tool_relevance", "synthesis_quality")
)


class JudgeProfile(StrictModel):
    """One version of a judge profile, with the fields of its file."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    version: Annotated[int, Field(ge=1)]
    name: Annotated[str, Field(min_length=1)]
    match_labels: Annotated[tuple[str, ...], Field(min_length=1)]
    method: Method
    rubric: str | None = None
    criteria: tuple[Criterion, ...] = ()
    disqualifiers: tuple[Annotated[str, Field(min_length=1, max_length=_MAX_PATTERN)], ...] = ()
    scale: Scale = Scale()
    quality_risk_fraction: Annotated[float, Field(ge=0, le=1)] = DEFAULT_RISK_FRACTION
    thresholds: Thresholds = Thresholds()
    model: str | None = None
    samples: Annotated[int, Field(ge=1)] = 1
    sample_rate: Annotated[float, Field(ge=0, le=1)] = 1.0
    frozen_until: AwareDatetime | None = None
    enabled: bool = True

    @model_validator(mode="after")
    def _check_method(self) -> Self:
        if self.method == "heuristic" and not self.criteria:
            raise ValueError("a heuristic profile needs criteria")
        if self.method != "heuristic" and self.rubric is None:
            raise ValueError(f"method {self.method} needs a rubric")
        if self.method == "hybrid" and not (self.judged and self.computed):
            raise ValueError(
                "method hybrid needs computed and judged criteria. The computed criteria are: "
                f"{', '.join(HEURISTICS)}"
            )
        return self

    @model_validator(mode="after")
    def _check_judged_ids(self) -> Self:
        if dotted := [criterion.id for criterion in self.judged if "." in criterion.id]:
            raise ValueError(
                f"criteria: the id of a judged criterion must have no dot: {dotted[0]}"
            )
        return self

    @model_validator(mode="after")
    def _check_unique_names(self) -> Self:
        for field, names in (
            ("criteria", [criterion.id for criterion in self.criteria]),
            ("match_labels", list(self.match_labels)),
        ):
            if repeated := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"{field}: {', '.join(repeated)} occurs more than once")
        return self

    @model_validator(mode="after")
    def _check_disqualifiers(self) -> Self:
        for pattern in self.disqualifiers:
            check_pattern(pattern)
        return self

    @property
    def computed(self) -> tuple[Criterion, ...]:
        """Computed criteria; in a heuristic profile they may include unknown names."""
        if self.method == "llm":
            return ()
        is_heuristic = self.method == "heuristic"
        return tuple(
            criterion for criterion in self.criteria if is_heuristic or criterion.id in HEURISTICS
        )

    @property
    def judged(self) -> tuple[Criterion, ...]:
        """Criteria that the judge scores: the listed ones, or the four of the shipped rubrics."""
        if self.method == "heuristic":
            return ()
        if not self.criteria:
            return _RUBRIC_CRITERIA
        is_llm = self.method == "llm"
        return tuple(
            criterion for criterion in self.criteria if is_llm or criterion.id not in HEURISTICS
        )

    @property
    def criterion_ids(self) -> tuple[str, ...]:
        """Ids of all criteria, computed and judged."""
        return tuple(criterion.id for criterion in (*self.computed, *self.judged))

    @property
    def judge_points(self) -> dict[str, int]:
        """Maximum points of each judged criterion, in proportion to the weights; the sum is 100.

        Shares are rounded down, and the remaining points go to the largest remainders (ties: the
        first in the list). Every criterion has at least one point.
        """
        return share_points({criterion.id: criterion.weight for criterion in self.judged})

    @property
    def content_hash(self) -> str:
        """SHA-256 of the fields that may only change together with the version."""
        return hashlib.sha256(canonical(self.versioned()).encode()).hexdigest()

    def versioned(self) -> dict[str, Any]:
        """Return the fields that may only change together with the version, as JSON values."""
        return self.model_dump(mode="json", include=set(VERSIONED))


def parse_profile(values: object, source: str) -> JudgeProfile:
    """Return the profile with the ``values`` of a YAML file.

    Raises:
        ProfileError: The profile is invalid; the message names ``source`` and has a line for every
            invalid field.
    """
    if not isinstance(values, Mapping):
        raise ProfileError(f"{source}: a profile must be a mapping of fields, not {values!r:.60}")
    try:
        profile = JudgeProfile.model_validate(_in_own_form(values))
    except ValidationError as error:
        problems = [
            f"  {'.'.join(map(str, details['loc'])) or 'profile'}: "
            f"{details['msg'].removeprefix('Value error, ')}"
            for details in error.errors(include_url=False)
        ]
        message = "\n".join([f"{source} is not a judge profile:", *problems])
        raise ProfileError(message) from None
    # Not in the model: a version that was registered with such a pattern stays readable.
    for pattern in profile.disqualifiers:
        if _matches_every_text(pattern):
            raise ProfileError(f"{source}: the disqualifier {pattern!r} matches every text")
    return profile


_OTHER_FORM = {
    to_camel(name): name for name in (*JudgeProfile.model_fields, *Thresholds.model_fields)
}


def _in_own_form(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the fields of a profile that may be below ``profile:`` and in camel case.

    Version and method may be missing in that form: 1 and heuristic.
    """
    inner = values.get("profile")
    if isinstance(inner, Mapping) and len(values) == 1:
        values = {"version": 1, "method": "heuristic", **inner}
    return _renamed(values)


def _renamed(values: Mapping[Any, Any]) -> dict[Any, Any]:
    return {
        _OTHER_FORM.get(name, name): _renamed(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
    }


def check_pattern(pattern: str) -> None:
    """Check that a disqualifier is a valid pattern of the regular expression engine.

    The engine searches in linear time and therefore has no backreferences and no look-around.

    Raises:
        ValueError: The pattern is invalid; the message contains the reason.
    """
    try:
        pl.Series([""]).str.contains(pattern, strict=True)
    except pl.exceptions.ComputeError as error:
        reason = str(error).partition("\n\nThis error occurred")[0]
        raise ValueError(f"{pattern!r} is not a valid pattern: {reason}") from None


def _matches_every_text(pattern: str) -> bool:
    """Return whether a pattern matches an empty text, or each of a letter, a digit and a blank."""
    empty, *characters = pl.Series(["", "x", "7", " "]).str.contains(pattern, strict=True)
    return empty or all(characters)


def criterion_warnings(profile: JudgeProfile) -> list[str]:
    """Return a sentence for each criterion of a heuristic profile that nothing computes."""
    return [
        _warning(criterion.id) for criterion in profile.computed if criterion.id not in HEURISTICS
    ]


def _warning(criterion: str) -> str:
    near = get_close_matches(criterion, HEURISTICS, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return (
        f"the criterion {criterion} is unknown and scores the midpoint.{hint} "
        f"Known criteria: {', '.join(HEURISTICS)}."
    )


def share_points(weights: Mapping[str, float]) -> dict[str, int]:
    """Divide 100 points in proportion to ``weights``.

    Shares are rounded by the largest remainder; each is at least one point.

    Raises:
        ProfileError: There are more than 100 criteria.
    """
    if len(weights) > 100:
        raise ProfileError(f"{len(weights)} judged criteria, at most 100 are possible")
    total = sum(weights.values())
    shares = {name: weight / total * 100 for name, weight in weights.items()}
    points = {name: int(share) for name, share in shares.items()}
    by_remainder = sorted(
        shares, key=lambda criterion_id: points[criterion_id] - shares[criterion_id]
    )
    for criterion_id in by_remainder[: 100 - sum(points.values())]:
        points[criterion_id] += 1
    for criterion_id in [zero for zero, number in points.items() if number == 0]:
        points[max(points, key=points.__getitem__)] -= 1
        points[criterion_id] = 1
    return points


def canonical(values: object) -> str:
    """Return canonical JSON: sorted keys, no spaces."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
