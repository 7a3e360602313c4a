"""The comparison over a real lake: what counts, what does not, and what counted in the past."""

import io
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.comparison.compare_models import compare_models
from evaluation_pipelines.comparison.domain.compare import Comparison, Question
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.reporting.comparison_report import write_report
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    Table,
)
from evaluation_pipelines.scorecards.store import (
    AuditSample,
    NewOverride,
    OverrideStore,
)
from evaluation_pipelines.sessions.score import score_files
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line
from evaluation_pipelines_tests.world.rows import START, Row, at, session
from evaluation_pipelines_tests.world.runs import model
from evaluation_pipelines_tests.world.scorecards import (
    evaluated_session,
    new_override,
    profile,
    scorecard,
)

DAY = START.date()
QUESTION = Question(START - timedelta(days=7), START + timedelta(days=7))
LATER = START + timedelta(days=30)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with open_workplace(tmp_path) as opened:
        yield opened


def evaluation(number: int, score: float | None = 80.0, **columns: object) -> Row:
    """The evaluation of session ``s<number>``: its scorecard by p version 1."""
    named = {"session_key": f"s{number}#baseline-1", "session_id": f"s{number}"}
    times = {"started_at": at(number), "ended_at": at(number + 300)}
    row = evaluated_session(score, **(named | times | columns))
    automatic = {"automatic_100": row["effective_100"], "automatic_source": row["effective_source"]}
    return row | automatic


def card(number: int, score: float, scored: timedelta, **columns: object) -> Row:
    """A card of session ``s<number>`` that was written so long after the start."""
    names = {"card_id": f"card {number} {score}", "session_key": f"s{number}#baseline-1"}
    times = {"started_at": at(number), "scored_at": START + scored}
    return scorecard(score / 10, **(names | times | columns))


def override(number: int, score: float, **columns: Any) -> NewOverride:
    """What Ada says of session ``s<number>``, on a scale of 0 to 10."""
    scale = {"scale_max": 10.0, "automatic_score": 8.0, "session_key": f"s{number}#baseline-1"}
    return new_override(score / 10, **(scale | columns))


def put(place: Workplace, table: Table, rows: list[Row], day: date = DAY) -> None:
    """Write one partition of a table."""
    frame = pl.DataFrame(rows, schema=table.schema, orient="row")
    if table.several_files:
        place.lake.write_slot(frame, table, day, "p-v1")
    else:
        place.lake.write(frame, table, day)


def put_sessions(place: Workplace, evaluations: list[Row], day: date = DAY) -> None:
    """Evaluations and the sessions they belong to, of eight people in turn."""
    shared = (
        *("session_key", "session_id", "started_at", "ended_at", "model", "provider"),
        *("content_hash", "classification_label"),
    )
    sessions = [
        session(
            **{name: row[name] for name in shared}, person_id=f"user {place % 8}", session_date=day
        )
        for place, row in enumerate(evaluations)
    ]
    put(place, AGENT_SESSIONS, sessions, day)
    put(place, SESSION_EVALUATIONS, [row | {"session_date": day} for row in evaluations], day)


def figures(found: Comparison) -> Mapping[str, tuple[int, Any]]:
    """Source -> runs and mean score."""
    rows = found.models.select("effective_source", "runs", "avg_score").rows()
    return {source: (number, pytest.approx(mean)) for source, number, mean in rows}


def test_a_session_counts_by_its_start_wherever_it_lies(place: Workplace) -> None:
    put_sessions(place, [evaluation(1)])
    # Begun long before, and taken up again within the time: its second window lies with its first.
    old = evaluation(2, 60.0)
    put_sessions(place, [old], DAY - timedelta(days=300))
    put_sessions(
        place, [evaluation(3, 10.0, started_at=START - timedelta(days=8))], DAY - timedelta(days=8)
    )
    found = compare_models(place.stores, QUESTION, LATER)
    assert figures(found) == {"scorecard": (2, 70.0)}
    assert found.models["avg_cost_usd"].to_list() == [0.09]


def test_a_build_between_two_reads_does_not_mix_its_rows_with_those_of_before(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_sessions(place, [evaluation(1)])
    select = Lake.select

    def select_after_a_build(lake: Lake, table: Table, *conditions: pl.Expr) -> pl.DataFrame:
        if table is AGENT_SESSIONS:
            put_sessions(place, [evaluation(2, 10.0)])
        return select(lake, table, *conditions)

    monkeypatch.setattr(Lake, "select", select_after_a_build)
    found = compare_models(place.stores, QUESTION, LATER)
    # Read from the newer table, session 1 would have no cost.
    assert found.models.select("runs", "avg_cost_usd").rows() == [(1, 0.09)]


def test_the_worst_sessions_bring_their_own_cards(place: Workplace) -> None:
    bad, good = evaluation(1, 20.0, card_id="card 1 20.0"), evaluation(2, card_id="card 2 80.0")
    put_sessions(place, [bad, good, evaluation(3, 10.0, effective_source="composite")])
    put(place, SCORECARDS, [card(1, 20.0, timedelta(hours=1)), card(1, 30.0, timedelta(hours=2))])
    found = compare_models(place.stores, QUESTION, LATER)
    assert found.cards["card_id"].to_list() == ["card 1 20.0"]


def test_a_report_that_cannot_be_written_leaves_nothing_behind(place: Workplace) -> None:
    found = compare_models(place.stores, QUESTION, LATER)
    folder = Path(place.settings.reports_dir)
    (folder / "model_comparison.html").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        write_report(place.stores, found)
    assert [path.name for path in folder.rglob("*")] == ["model_comparison.html"]


def test_the_audit_sample_is_that_of_the_ledger_as_of_then(place: Workplace) -> None:
    ProfileStore(place.ledger).register(profile(), START)
    put_sessions(place, [evaluation(number) for number in range(40)])
    put(place, SCORECARDS, [card(number, 80.0, timedelta(hours=1)) for number in range(40)])
    samples = [
        AuditSample(
            *(DAY, "default", f"s{number}#baseline-1", "p", "0", at(7200)),
            inclusion_probability=0.5,
        )
        for number in range(32)
    ]
    OverrideStore(place.ledger).add_samples(samples)
    OverrideStore(place.ledger).add(
        [override(number, 70.0 + number % 3, source="audit") for number in range(32)], at(9000)
    )
    # Evaluations were not built since, so that the automatic score still counts.
    for as_of, audited in ((None, 32), (at(9001), 32), (at(8000), 0)):
        found = compare_models(place.stores, QUESTION, LATER, as_of)
        rows = found.models.filter(pl.col("audited").is_not_null())
        assert rows["audited"].to_list() in ([audited], [audited, audited])


JUNE_1 = Question(datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 6, 2, tzinfo=UTC))


def good_run(name: str) -> bytes:
    """A prompt, an answered request of one cent and a tool call that succeeded."""
    cost = {"model": "aspen-4", "cost_usd": 0.01, "input_tokens": 10, "output_tokens": 20}
    return line(
        claude("user_prompt", 0, session__id=name),
        claude("api_request", 1, session__id=name, **cost),
        claude("tool_result", 2, session__id=name, tool_name="Read", success="true"),
    )


def failed_run(name: str) -> bytes:
    """A prompt that no request answered."""
    error = {"model": "aspen-4", "status_code": 500, "error": "Internal server error"}
    return line(
        claude("user_prompt", 0, session__id=name),
        claude("api_error", 95, session__id=name, **error),
    )


def test_it_counts_as_0_in_the_row_of_the_model_that_it_asked(tmp_path: Path) -> None:
    content = b"".join([good_run("good"), failed_run("failed")])
    with open_workplace(tmp_path) as place:
        place.land("logs.jsonl", content)
        place.ingest()
        place.build()
        stored = {row["session_id"]: row for row in place.sessions().to_dicts()}
        scored = score_files([("logs.jsonl", io.BytesIO(content))], place.settings).sessions
        evaluations = place.lake.read(SESSION_EVALUATIONS, [JUNE_1.since.date()])
        said = dict(evaluations.select("session_id", "effective_100").rows())
        found = compare_models(place.stores, JUNE_1, NOW)
    names = ("status", "model", "models", "provider", "cost_usd")
    assert [stored["failed"][name] for name in names[:3]] == ["failed", "aspen-4", []]
    (failed,) = (row for row in scored if row["session_id"] == "failed")
    assert {name: failed[name] for name in names} == {
        name: stored["failed"][name] for name in names
    }
    row = model(found, "aspen-4")
    assert (row["runs"], row["failed_at_start"], found.models.height) == (2, 1, 1)
    # The mean of one cent and nothing; of the good run's score and 0.
    assert row["avg_cost_usd"] == 0.005
    assert said["failed"] == 0
    assert row["avg_score"] == pytest.approx(said["good"] / 2)
