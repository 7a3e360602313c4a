"""Profile validation, and the fields that need a new version."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.profiles.domain.profile import (
    JudgeProfile,
    ProfileError,
    parse_profile,
    share_points,
)
from evaluation_pipelines_tests.world.scorecards import criteria, judged_profile, profile

VALID: dict[str, Any] = {
    "id": "p",
    "version": 1,
    "name": "P",
    "match_labels": ["code"],
    "method": "heuristic",
    "criteria": [{"id": "response_time"}],
}


def test_omitted_fields_have_defaults() -> None:
    parsed = parse_profile(VALID, "p.yaml")

    assert (parsed.scale.min, parsed.scale.max) == (0, 100)
    assert parsed.quality_risk_fraction == 0.4
    assert (parsed.samples, parsed.sample_rate, parsed.enabled) == (1, 1.0, True)
    assert parsed.criteria[0].weight == 1
    limits = parsed.thresholds
    assert (limits.response_time_best_s, limits.response_time_worst_s) == (10, 120)
    assert (limits.token_efficiency_best, limits.token_efficiency_worst) == (0.5, 5)
    assert (limits.tool_count_best, limits.tool_count_worst) == (0, 10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "../etc"}, r"  id: String should match pattern"),
        ({"version": 0}, r"  version: .*greater than or equal to 1"),
        ({"match_labels": []}, r"  match_labels: "),
        ({"match_labels": ["a", "a"]}, r"match_labels: a occurs more than once"),
        ({"method": "guess"}, r"  method: .*'heuristic', 'llm' or 'hybrid'"),
        ({"criteria": []}, r"a heuristic profile needs criteria"),
        ({"criteria": criteria(a=1) * 2}, r"criteria: a occurs more than once"),
        ({"criteria": criteria(a=0)}, r"  criteria.0.weight: .*greater than 0"),
        ({"criteria": criteria(a=float("inf"))}, r"  criteria.0.weight: .*finite"),
        ({"method": "llm"}, r"method llm needs a rubric"),
        ({"method": "hybrid", "rubric": "r"}, r"method hybrid needs computed and judged criteria"),
        (
            {"method": "llm", "rubric": "r", "criteria": criteria(performance__quality=1)},
            r"the id of a judged criterion must have no dot: performance.quality",
        ),
        ({"scale": {"min": 5, "max": 5}}, r"  scale: min must be below max, not 5.0 and 5.0"),
        (
            {"thresholds": {"response_time_best_s": 120}},
            r"  thresholds: response_time_best_s must be below response_time_worst_s",
        ),
        ({"thresholds": {"respones_time": 1}}, r"  thresholds.respones_time: Extra inputs"),
        ({"wieghts": 1}, r"  wieghts: Extra inputs are not permitted"),
        ({"frozen_until": "2026-12-01T00:00:00"}, r"  frozen_until: .*timezone"),
        ({"quality_risk_fraction": 40}, r"  quality_risk_fraction: .*less than or equal to 1"),
        ({"disqualifiers": ["(?=a)"]}, r"'\(\?=a\)' is not a valid pattern: .*(\n.*)*look-around"),
        ({"disqualifiers": [r"(a)\1"]}, r"backreferences are not supported"),
        ({"disqualifiers": ["("]}, r"unclosed group"),
        ({"disqualifiers": ["a{1000}{1000}"]}, r"exceeds size limit"),
        ({"disqualifiers": ["a" * 1001]}, r"  disqualifiers.0: .*at most 1000"),
    ],
)
def test_an_invalid_field_is_refused_with_its_name_and_the_reason(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ProfileError, match=message) as refused:
        parse_profile(VALID | change, "p.yaml")
    assert str(refused.value).startswith("p.yaml is not a judge profile:\n  ")


@pytest.mark.parametrize(
    "pattern", [".*", "x?", "$", ".+", ".", r"(?s)\A.+\z", r"\w|\s", r"[^\n]", "x|7|[ ]", r"\PC"]
)
def test_a_disqualifier_of_every_text_is_refused_in_a_file_and_readable_where_registered(
    pattern: str,
) -> None:
    values = VALID | {"disqualifiers": ["rm", pattern]}
    with pytest.raises(ProfileError) as refused:
        parse_profile(values, "p.yaml")
    assert str(refused.value) == f"p.yaml: the disqualifier {pattern!r} matches every text"
    assert JudgeProfile.model_validate(values).disqualifiers == ("rm", pattern)
    some = ("..", "x", r"\d+", r"\s", r"\S+", "^rm")
    assert parse_profile(VALID | {"disqualifiers": some}, "p.yaml").disqualifiers == some


@pytest.mark.parametrize("values", [None, [], "text", 3])
def test_a_file_without_a_mapping_is_refused(values: object) -> None:
    with pytest.raises(ProfileError, match=r"^p.yaml: a profile must be a mapping of fields, not"):
        parse_profile(values, "p.yaml")


FOUR = ("logical_flow", "consistency", "tool_relevance", "synthesis_quality")


@pytest.mark.parametrize(
    ("version", "computed", "points"),
    [
        (judged_profile(), [], dict.fromkeys(FOUR, 25)),  # those of its rubric
        (
            judged_profile(
                method="hybrid", criteria=criteria(tool_count=2, taste=1, performance__quality=3)
            ),
            *(["tool_count", "performance.quality"], {"taste": 100}),
        ),
        (
            judged_profile(criteria=criteria(tool_count=1, taste=3)),
            *([], {"tool_count": 25, "taste": 75}),
        ),
    ],
)
def test_a_hybrid_profile_computes_known_heuristics_and_judges_the_rest(
    version: JudgeProfile, computed: list[str], points: dict[str, int]
) -> None:
    assert [criterion.id for criterion in version.computed] == computed
    assert version.judge_points == points


def test_points_are_shared_by_largest_remainder() -> None:
    # 100/3 = 33.33: 33 each; the remaining point goes to the first.
    assert share_points({"a": 1, "b": 1, "c": 1}) == {"a": 34, "b": 33, "c": 33}
    # 60.6 and 39.4: 60 + 39 = 99, the larger remainder is .6.
    assert share_points({"a": 60.6, "b": 39.4}) == {"a": 61, "b": 39}
    # 0.1 rounds down to 0, but a criterion needs at least one point.
    assert share_points({"a": 999, "b": 1}) == {"a": 99, "b": 1}
    with pytest.raises(ProfileError, match="101 judged criteria, at most 100 are possible"):
        share_points({f"c{number}": 1 for number in range(101)})


@given(st.lists(st.floats(0.01, 1000), min_size=1, max_size=100))
def test_points_add_up_to_100_and_none_is_zero(weights: list[float]) -> None:
    points = share_points({f"c{number}": weight for number, weight in enumerate(weights)})

    assert sum(points.values()) == 100
    assert min(points.values()) >= 1


@pytest.mark.parametrize(
    ("change", "is_another"),
    [
        # What changes the meaning of a score
        *(({"criteria": criteria(response_time=2)}, True), ({"disqualifiers": ["rm"]}, True)),
        ({"criteria": [{"id": "response_time", "description": "another description"}]}, True),
        *(({"scale": {"min": 0, "max": 10}}, True), ({"rubric": "r"}, True)),
        *(
            ({"method": "llm", "rubric": "r"}, True),
            ({"thresholds": {"tool_count_worst": 20}}, True),
        ),
        # and other fields
        *(({"name": "Other"}, False), ({"match_labels": ["code"]}, False)),
        *(({"enabled": False}, False), ({"sample_rate": 0.5}, False), ({"samples": 3}, False)),
        *(({"model": "m"}, False), ({"quality_risk_fraction": 0.5}, False)),
        ({"frozen_until": "2026-12-01T00:00:00Z"}, False),
    ],
)
def test_what_changes_the_meaning_is_in_the_content_hash(
    change: dict[str, Any], is_another: bool
) -> None:
    assert (profile(**change).content_hash != profile().content_hash) is is_another
