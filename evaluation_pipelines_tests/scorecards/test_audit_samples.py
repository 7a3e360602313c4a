"""Audit samples in the ledger: drawn with known probabilities, and what they say of a profile."""

from datetime import date, timedelta
from hashlib import sha256

import polars as pl
import pytest

from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import AGENT_SESSIONS, SCORECARDS
from evaluation_pipelines.scorecards.blind_reviews import calibration, draw_samples
from evaluation_pipelines.scorecards.overrides import overrides_with_states
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore, note_step
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world.rows import START, Row
from evaluation_pipelines_tests.world.scorecards import profile
from evaluation_pipelines_tests.world.stored import (
    DAY,
    card,
    evaluation,
    override,
    put,
    put_sessions,
)


def sessions_of(model: str, first: int, number: int = 40) -> list[Row]:
    """Return evaluations of a model."""
    return [evaluation(index, model=model) for index in range(first, first + number)]


def earlier(number: int, age: timedelta) -> list[AuditSample]:
    """Return open samples of model-a from the day before, drawn some time ago."""
    return [
        AuditSample(
            *(DAY - timedelta(days=1), "default", f"t{index}", "p", "0", NOW - age),
            profile_version=1,
            classification_label="code",
            model="model-a",
            inclusion_probability=0.5,
        )
        for index in range(number)
    ]


def drawn(workplace: Workplace, day: date = DAY) -> list[AuditSample]:
    draw_samples(workplace.stores, [day], NOW)
    samples = OverrideStore(workplace.ledger).samples()
    return [sample for sample in samples if sample.session_date == day]


def test_a_sample_is_stored_with_its_stratum_and_probability(workplace: Workplace) -> None:
    put_sessions(workplace.lake, sessions_of("model-a", 0))
    samples = drawn(workplace)

    # 5 of 40, and a second draw changes nothing.
    assert {
        (
            sample.profile_version,
            sample.classification_label,
            sample.model,
            sample.inclusion_probability,
        )
        for sample in samples
    } == {(1, "code", "model-a", 5 / 40)}
    assert len(samples) == 5
    assert drawn(workplace) == samples


def test_sessions_without_any_text_are_not_drawn(workplace: Workplace) -> None:
    bare = {f"s{index}#baseline-1" for index in range(30)}
    put_sessions(workplace.lake, sessions_of("model-a", 0))
    sessions = workplace.lake.read(AGENT_SESSIONS, [DAY])
    is_bare = pl.col("session_key").is_in(bare)
    level = pl.when(is_bare).then(pl.lit("none")).otherwise(pl.lit("full"))
    put(workplace.lake, AGENT_SESSIONS, sessions.with_columns(content_level=level).to_dicts())
    samples = drawn(workplace)

    assert bare.isdisjoint(sample.session_key for sample in samples)
    assert [sample.inclusion_probability for sample in samples] == [5 / 10] * 5


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        # 70 - 30 of 40 and 70 of 40 are wanted, less 0.5 and 0.5 for all alike, and 4 directed:
        # 0.5 + 4 * 39.5 / 109 and 0.5 + 4 * 69.5 / 109 draws.
        (timedelta(days=6), {"model-a": 0.5 + 158 / 109, "model-b": 0.5 + 278 / 109}),
        # What is open for more than a week does not count.
        (timedelta(days=8), {"model-a": 2.5, "model-b": 2.5}),
    ],
)
def test_earlier_samples_count_while_they_can_be_expected_to_be_answered(
    workplace: Workplace, age: timedelta, expected: dict[str, float]
) -> None:
    put_sessions(workplace.lake, [*sessions_of("model-a", 0), *sessions_of("model-b", 40)])
    OverrideStore(workplace.ledger).add_samples(earlier(30, age))

    for sample in drawn(workplace):
        assert sample.inclusion_probability == pytest.approx(expected[str(sample.model)] / 40)


@pytest.mark.parametrize(("extra", "expected"), [(0, 3 / 40), (400, None)])
def test_a_sample_of_before_had_equal_chances_if_the_sessions_still_say_so(
    workplace: Workplace, extra: int, expected: float | None
) -> None:
    yesterday = DAY - timedelta(days=1)
    # Then, the sessions with the smallest hashes of date and key were drawn.
    lots = sorted(
        (sha256(f"{yesterday}\0default\0s{index}#baseline-1".encode()).hexdigest(), index)
        for index in range(40)
    )
    keys = [f"s{index}#baseline-1" for _, index in lots[:3]]
    store = OverrideStore(workplace.ledger)
    store.add_samples([AuditSample(yesterday, "default", key, "p", "0", NOW) for key in keys])
    # With 400 more sessions the sample would have been another.
    put_sessions(workplace.lake, sessions_of("model-a", 0, 40 + extra), yesterday)
    put_sessions(workplace.lake, sessions_of("model-b", 500))
    drawn(workplace)

    found = [sample for sample in store.samples() if sample.session_date == yesterday]
    assert [sample.inclusion_probability for sample in found] == [expected] * 3
    assert {sample.model for sample in found} == ({"model-a"} if expected else {None})


@pytest.fixture
def keys(workplace: Workplace) -> list[str]:
    """Keys of forty sessions that profile p scored with 80."""
    ProfileStore(workplace.ledger).register(profile(), START)
    evaluations = sessions_of("model-a", 0)
    put_sessions(workplace.lake, evaluations)
    put(workplace.lake, SCORECARDS, [card(index, 80.0, timedelta(hours=1)) for index in range(40)])
    return [str(row["session_key"]) for row in evaluations]


def test_calibration_knows_persons_and_probabilities(workplace: Workplace, keys: list[str]) -> None:
    store = OverrideStore(workplace.ledger)
    # The first ten of 32 had a chance of 1/2, the others of 1/4, and the last two an unknown one.
    chances = [0.5] * 10 + [0.25] * 20 + [None] * 2
    samples = [
        AuditSample(*(DAY, "default", key, "p", "0", NOW), inclusion_probability=chance)
        for key, chance in zip(keys, chances, strict=False)
    ]
    store.add_samples(samples)
    store.add(
        [override(index, 60.0 if index < 10 else 80.0, source="audit") for index in range(32)], NOW
    )
    audit, unweighted = calibration(workplace.stores, overrides_with_states(workplace.stores))

    # 10 sessions stand for 20 and are 20 points too high, 20 stand for 80 and are right.
    assert (audit.sample, audit.n, audit.people, audit.missing) == ("audit", 30, 8, None)
    assert audit.bias.value == pytest.approx(20 * 20 / 100)
    assert (unweighted.sample, unweighted.n) == ("audit, unweighted", 2)


def test_sessions_that_left_a_draw_are_represented_by_its_others(
    workplace: Workplace, keys: list[str]
) -> None:
    store = OverrideStore(workplace.ledger)
    # 20 sessions of one label, drawn with a chance of 1/2, and 20 of another, with one of 1/4.
    draws = [("a", 0.5)] * 20 + [("b", 0.25)] * 20
    store.add_samples(
        [
            AuditSample(
                *(DAY, "default", key, "p", "0", NOW),
                classification_label=label,
                inclusion_probability=chance,
            )
            for key, (label, chance) in zip(keys, draws, strict=True)
        ]
    )
    for key in keys[:10]:  # half of the first draw
        note_step(workplace.ledger, "ann", "leave", NOW, ("default", key))
    store.add(
        [override(index, 60.0 if index < 20 else 80.0, source="audit") for index in range(10, 40)],
        NOW,
    )
    (audit,) = calibration(workplace.stores, overrides_with_states(workplace.stores))

    # 10 of 20 are left, so that each stands for 2 * 2 sessions: 40 that are 20 points too high.
    # The others stand for 20 * 4 = 80 that are right.
    assert audit.bias.value == pytest.approx(20 * 40 / 120)
