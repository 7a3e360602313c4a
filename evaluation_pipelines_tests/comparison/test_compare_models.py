"""The comparison over a real lake: what counts, what does not, and what counted in the past."""

import io
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
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
    OverrideStore,
)
from evaluation_pipelines.sessions.score import score_files
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import claude, line
from evaluation_pipelines_tests.world.rows import START, at
from evaluation_pipelines_tests.world.runs import model
from evaluation_pipelines_tests.world.scorecards import profile
from evaluation_pipelines_tests.world.stored import (
    DAY,
    card,
    evaluation,
    override,
    put,
    put_sessions,
)

QUESTION = Question(START - timedelta(days=7), START + timedelta(days=7))
LATER = START + timedelta(days=30)


def figures(found: Comparison) -> Mapping[str, tuple[int, Any]]:
    """Source -> runs and mean score."""
    rows = found.models.select("effective_source", "runs", "avg_score").rows()
    return {source: (number, pytest.approx(mean)) for source, number, mean in rows}


def test_a_session_counts_by_its_start_wherever_it_lies(workplace: Workplace) -> None:
    put_sessions(workplace.lake, [evaluation(1)])
    # Begun long before, and taken up again within the time: its second window lies with its first.
    old = evaluation(2, 60.0)
    put_sessions(workplace.lake, [old], DAY - timedelta(days=300))
    put_sessions(
        workplace.lake,
        [evaluation(3, 10.0, started_at=START - timedelta(days=8))],
        DAY - timedelta(days=8),
    )
    found = compare_models(workplace.stores, QUESTION, LATER)
    assert figures(found) == {"scorecard": (2, 70.0)}
    assert found.models["avg_cost_usd"].to_list() == [0.09]


def test_a_build_between_two_reads_does_not_mix_its_rows_with_those_of_before(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_sessions(workplace.lake, [evaluation(1)])
    select = Lake.select

    def select_after_a_build(lake: Lake, table: Table, *conditions: pl.Expr) -> pl.DataFrame:
        if table is AGENT_SESSIONS:
            put_sessions(workplace.lake, [evaluation(2, 10.0)])
        return select(lake, table, *conditions)

    monkeypatch.setattr(Lake, "select", select_after_a_build)
    found = compare_models(workplace.stores, QUESTION, LATER)
    # Read from the newer table, session 1 would have no cost.
    assert found.models.select("runs", "avg_cost_usd").rows() == [(1, 0.09)]


def test_the_worst_sessions_bring_their_own_cards(workplace: Workplace) -> None:
    bad, good = evaluation(1, 20.0, card_id="card 1 20.0"), evaluation(2, card_id="card 2 80.0")
    put_sessions(workplace.lake, [bad, good, evaluation(3, 10.0, effective_source="composite")])
    put(
        workplace.lake,
        SCORECARDS,
        [card(1, 20.0, timedelta(hours=1)), card(1, 30.0, timedelta(hours=2))],
    )
    found = compare_models(workplace.stores, QUESTION, LATER)
    assert found.cards["card_id"].to_list() == ["card 1 20.0"]


def test_a_report_that_cannot_be_written_leaves_nothing_behind(workplace: Workplace) -> None:
    found = compare_models(workplace.stores, QUESTION, LATER)
    folder = Path(workplace.settings.reports_dir)
    (folder / "model_comparison.html").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        write_report(workplace.stores, found)
    assert [path.name for path in folder.rglob("*")] == ["model_comparison.html"]


def test_the_audit_sample_is_that_of_the_ledger_as_of_then(workplace: Workplace) -> None:
    ProfileStore(workplace.ledger).register(profile(), START)
    put_sessions(workplace.lake, [evaluation(number) for number in range(40)])
    put(
        workplace.lake, SCORECARDS, [card(number, 80.0, timedelta(hours=1)) for number in range(40)]
    )
    samples = [
        AuditSample(
            *(DAY, "default", f"s{number}#baseline-1", "p", "0", at(7200)),
            inclusion_probability=0.5,
        )
        for number in range(32)
    ]
    OverrideStore(workplace.ledger).add_samples(samples)
    OverrideStore(workplace.ledger).add(
        [override(number, 70.0 + number % 3, source="audit") for number in range(32)], at(9000)
    )
    # Evaluations were not built since, so that the automatic score still counts.
    for as_of, audited in ((None, 32), (at(9001), 32), (at(8000), 0)):
        found = compare_models(workplace.stores, QUESTION, LATER, as_of)
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


def test_it_counts_as_0_in_the_row_of_the_model_that_it_asked(workplace: Workplace) -> None:
    content = b"".join([good_run("good"), failed_run("failed")])
    workplace.land("logs.jsonl", content)
    workplace.ingest()
    workplace.build()
    stored = {row["session_id"]: row for row in workplace.sessions().to_dicts()}
    scored = score_files([("logs.jsonl", io.BytesIO(content))], workplace.settings).sessions
    evaluations = workplace.lake.read(SESSION_EVALUATIONS, [JUNE_1.since.date()])
    said = dict(evaluations.select("session_id", "effective_100").rows())
    found = compare_models(workplace.stores, JUNE_1, NOW)
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
