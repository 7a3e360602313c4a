"""Predictions over a real lake: looks, scores that came too late, and what is printed."""

from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256

import polars as pl
import pytest
import sqlalchemy as sa
from alembic import command

from evaluation_pipelines.comparison.domain.prediction import lines, notes
from evaluation_pipelines.comparison.prediction import write_predictions
from evaluation_pipelines.schemas import (
    OUTCOME_PREDICTIONS,
    SESSION_EVALUATIONS,
    SESSION_OUTCOMES,
)
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.tables.judging import GATE_LOOKS
from evaluation_pipelines_tests.storage.ledger.test_migrations import alembic
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world.rows import at
from evaluation_pipelines_tests.world.stored import evaluated_row, evaluation, put, put_sessions

MONTH_S = 30 * 86_400


def fill(
    workplace: Workplace,
    number: int,
    *,
    flipped: bool = False,
    young: int = 0,
    worse: Sequence[int] = (),
) -> None:
    """Sessions of six people in turn. Every second one of a person is merged.

    The composite of a merged one is above all others of its person. So is the effective score, but
    for people whose scores are all the same in it (``worse``).
    """
    evaluations, sessions, outcomes = [], [], []
    for n in range(number):
        person, is_merged = n % 6, n // 6 % 2 == 0
        composite = (7.0 if is_merged is not flipped else 3.0) + person / 10 + n / 1000
        scored = evaluation(
            n,
            50.0 if person in worse else composite * 10,
            composite=composite,
            effective_source="composite",
            judge_total=None,
        )
        sessions.append(evaluated_row(scored, person_id=f"u{person}", repository="r"))
        evaluations.append(scored)
        read = 86_400 if n < young else MONTH_S
        outcome = {
            "organization_id": "default",
            "session_key": scored["session_key"],
            "kind": "merged",
            "value": float(is_merged),
            "happened_at": at(n + 86_400) if is_merged else None,
            "read_at": at(read),
            "reference": f"c{n}",
        }
        outcomes.append(outcome)
    put_sessions(workplace.lake, evaluations, sessions=sessions)
    put(workplace.lake, SESSION_OUTCOMES, outcomes)


def shown(rows: pl.DataFrame, *names: str) -> list[tuple[object, ...]]:
    return rows.filter(outcome="merged").sort("score").select("score", *names).rows()


def test_a_look_is_kept_until_the_rarer_class_has_grown_by_half(workplace: Workplace) -> None:
    fill(workplace, 36, young=6)

    found = write_predictions(workplace.stores, NOW)

    # Six people of 3 merged and 3 others each, one of them too young: 2 * 3 = 6 pairs. Each A is 1.
    assert shown(found, "auc", "people", "units", "rarer", "look", "family", "young") == [
        ("composite", 1.0, 6, 30, 12, 1, "primary", 6),
        ("effective", 1.0, 6, 30, 12, 1, "primary", 6),
    ]
    assert {line[4] for line in lines(found)} == {"predicts"}
    said = " ".join(notes(found))
    assert "The outcome merged is known for 30 of 36 sessions," in said
    assert "6 sessions are younger than the horizon" in said
    assert "Based on the 6 of 6 people with both results" in said

    # 12 of the rarer class are no further step, whatever they show; 24 are the third.
    fill(workplace, 36, young=6, flipped=True)
    later = NOW + timedelta(days=1)
    assert write_predictions(workplace.stores, later).equals(found)
    # After sessions were erased it is the same look at what is left.
    erased = write_predictions(workplace.stores, later, again=True)
    assert shown(erased, "auc", "look")[0] == ("composite", 0.0, 1)
    fill(workplace, 48, flipped=True)
    again = write_predictions(workplace.stores, later)
    assert shown(again, "auc", "look", "verdict") == [
        ("composite", 0.0, 3, "predicts the wrong way"),
        ("effective", 0.0, 3, "predicts the wrong way"),
    ]
    # No spread: chance alone, 6 people of 4 and 4. What the first look spent is not the third's:
    # 0.05 * ((22.5 / 42.5)⁴ - (10 / 30)⁴) = 0.00331, half of it for the second of two: z = 3.1458.
    chance = (6 * 9 / (12 * 16) * 4 * 7 / 8 / 8) ** 0.5 / 6
    composite = again.filter(score="composite", outcome="merged")
    assert composite["auc_high"].item() == pytest.approx(3.1458 * chance, abs=1e-4)
    assert workplace.lake.read_whole(OUTCOME_PREDICTIONS).equals(again)
    # 18 of the rarer class would be the second step: no look is spent on fewer units.
    fill(workplace, 36)
    assert write_predictions(workplace.stores, later).equals(again)


def test_a_look_spends_a_part_of_what_looks_of_any_numbering_left(workplace: Workplace) -> None:
    gate = sha256(b"predictions\ndefault").hexdigest()
    spent = [
        {"gate": gate, "look": look, "runs": f"merged {look}", "looked_at": NOW, "level": level}
        for look, level in ((1, 0.02), (2, 0.01), (3, 0.01))
    ]
    with writing(workplace.ledger.engine) as connection:
        connection.execute(sa.insert(GATE_LOOKS), spent)
    fill(workplace, 72)

    write_predictions(workplace.stores, NOW)

    with reading(workplace.ledger.engine) as connection:
        last = connection.execute(sa.select(GATE_LOOKS).where(GATE_LOOKS.c.look > 3)).one()
    # 36 of the rarer class are the fourth step, at 33.75. The third was at 22.5.
    third, fourth = (22.5 / 42.5) ** 4, (33.75 / 53.75) ** 4
    assert last.runs == "merged 4"
    assert last.level == pytest.approx((0.05 - 0.04) * (fourth - third) / (1 - third))
    # Without rows it is made again at its own level.
    erased = write_predictions(workplace.stores, NOW, again=True)
    assert erased.equals(workplace.lake.read_whole(OUTCOME_PREDICTIONS))
    assert set(erased["look"]) == {4}


def test_looks_of_a_ledger_of_before_leave_less_to_spend(workplace: Workplace) -> None:
    gate = sha256(b"predictions\ndefault").hexdigest()
    looks = [
        {"gate": gate, "look": look, "runs": f"merged {look}", "looked_at": NOW}
        for look in (1, 2, 3)
    ]
    with alembic(workplace.ledger.engine) as config:
        command.downgrade(config, "transcript_contexts")
    with writing(workplace.ledger.engine) as connection:
        connection.execute(sa.insert(GATE_LOOKS), looks)
    with alembic(workplace.ledger.engine) as config:
        command.upgrade(config, "head")

    def low(number: int) -> float:
        fill(workplace, number)
        found = write_predictions(workplace.stores, NOW)
        return float(found.filter(score="composite", outcome="merged")["auc_low"].item())

    # Each A is 1, so chance alone counts, in the second of two tests: at half of a look's level.
    # 18 of the rarer class are no further step: look 3 has its own 0.05 / 12, z = 3.0781, and
    # 6 people of 3 and 3.
    chance = (6 * 7 / (12 * 9) * 4 * 7 / 8 / 8) ** 0.5 / 6
    assert low(36) == pytest.approx(1 - 3.0781 * chance, abs=1e-4)
    # They spent 0.05 (1/2 + 1/6 + 1/12) = 0.0375. Look 4, at 33.75 units after 22.5, takes
    # 0.0125 (0.15545 - 0.07856) / (1 - 0.07856) = 0.0010431, z = 3.4694, 6 people of 6 and 6.
    chance = (6 * 13 / (12 * 36) * 4 * 7 / 8 / 8) ** 0.5 / 6
    assert low(72) == pytest.approx(1 - 3.4694 * chance, abs=1e-4)


def test_scores_are_compared_with_the_composite_by_people_who_count_for_both(
    workplace: Workplace,
) -> None:
    fill(workplace, 36, worse=(1, 2))

    found = write_predictions(workplace.stores, NOW)

    # A of the effective score is 0.5 less for two of six people: the mean is -1 / 6, and s² =
    # (2 * (1/3)² + 4 * (1/6)²) / 5 = 1 / 15, t(0.975, 5) = 2.5706.
    half = 2.570582 * (1 / 15 / 6) ** 0.5
    assert shown(found, "gain", "gain_low") == [
        ("composite", None, None),
        ("effective", pytest.approx(-1 / 6), pytest.approx(-1 / 6 - half, abs=1e-6)),
    ]
    assert lines(found)[1][-1] == "-17 (-44 to +10)"


def test_sessions_of_one_pull_request_are_one_unit(workplace: Workplace) -> None:
    fill(workplace, 36)
    outcomes = workplace.lake.select(SESSION_OUTCOMES).with_columns(
        reference=pl.when(pl.col("session_key").str.contains(r"^s(0|6|12|18)#"))
        .then(pl.lit("pr"))
        .otherwise("reference")
    )
    put(workplace.lake, SESSION_OUTCOMES, outcomes.to_dicts())

    found = write_predictions(workplace.stores, NOW)

    # Four sessions of the first person are one merged unit, which leaves 2 good and 1 bad: 2 pairs.
    assert shown(found, "auc", "people", "units", "rarer")[0] == ("composite", 1.0, 5, 30, 15)


def test_before_the_first_step_nothing_is_decided(workplace: Workplace) -> None:
    fill(workplace, 18)

    found = write_predictions(workplace.stores, NOW)

    # Each person has 2 and 1: 2 pairs are too few.
    assert found.is_empty()
    assert "No session has an outcome" in notes(found)[0]
    fill(workplace, 24, young=12)
    assert write_predictions(workplace.stores, NOW).is_empty()
    fill(workplace, 24)
    # 12 of the rarer class, 2 and 2 of each person: the first look.
    assert shown(write_predictions(workplace.stores, NOW), "look")[0] == ("composite", 1)


def test_a_score_that_was_made_after_the_outcome_or_by_a_newer_version_is_left_out(
    workplace: Workplace,
) -> None:
    fill(workplace, 36)
    evaluations = workplace.lake.select(SESSION_EVALUATIONS)
    scored = {"automatic_source": "scorecard", "profile_version": 7}
    put(workplace.lake, SESSION_EVALUATIONS, [row | scored for row in evaluations.to_dicts()])

    found = write_predictions(workplace.stores, NOW)

    assert [row[0] for row in shown(found)] == ["composite"]  # version 7 was never registered


def test_indications_are_computed_once_a_day(workplace: Workplace) -> None:
    fill(workplace, 36)
    # The primary outcome of the settings has no row: what is shown is an agreement, at no look.
    rows = workplace.lake.select(SESSION_OUTCOMES).with_columns(kind=pl.lit("accepted"))
    put(workplace.lake, SESSION_OUTCOMES, rows.to_dicts())
    first = write_predictions(workplace.stores, NOW)
    assert set(first["look"]) == {0}
    assert set(first["family"]) == {"agreement"}
    fill(workplace, 24)
    put(workplace.lake, SESSION_OUTCOMES, rows.head(24).to_dicts())
    assert write_predictions(workplace.stores, NOW + timedelta(hours=1)).equals(first)
    assert write_predictions(workplace.stores, NOW + timedelta(days=1))["units"].max() == 24
