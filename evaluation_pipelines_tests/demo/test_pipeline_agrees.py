"""What the pipeline finds in generated telemetry, held against the generator's own account."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pytest

from evaluation_pipelines.build import DateBuilt
from evaluation_pipelines.telemetry.ingest import IngestReport
from evaluation_pipelines_tests.telemetry_generator.generator import Extent, write_telemetry
from evaluation_pipelines_tests.telemetry_generator.strays import MISHAPS, Mishap, logs_line
from evaluation_pipelines_tests.telemetry_generator.truth import SessionTruth, Truth, WindowTruth
from evaluation_pipelines_tests.workplace import Workplace, open_workplace

Row = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """The truth, and what the pipeline made of it."""

    truth: Truth
    report: IngestReport
    built: list[DateBuilt]
    workplace: Workplace

    def rows(self) -> dict[tuple[str, str], Row]:
        """Rows of agent_sessions by key."""
        rows = self.workplace.sessions().iter_rows(named=True)
        return {(row["organization_id"], row["session_key"]): row for row in rows}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    with open_workplace(tmp_path_factory.mktemp("outcome")) as workplace:
        truth = write_telemetry(
            workplace.landing.root,
            seed=1,
            end=date(2026, 11, 21),
            extent=Extent(days=3, sessions_per_day=20),
            rotate_bytes=2_000_000,
        )
        report = workplace.ingest()
        built = [result for result in workplace.build() if isinstance(result, DateBuilt)]
        yield Outcome(truth, report, built, workplace)


def expected(session: SessionTruth, window: WindowTruth) -> Row:
    """Columns of agent_sessions; money is compared apart."""
    calls_api = window.api_requests + window.api_errors > 0
    tokens = {
        "input_tokens": window.input_tokens,
        "output_tokens": window.output_tokens,
        "cache_read_tokens": window.cache_read_tokens,
        "cache_creation_tokens": window.cache_creation_tokens,
    }
    return {
        "session_key": window.session_key,
        "session_id": session.session_id,
        "organization_id": session.organization_id,
        "team_id": session.team_id,
        "user_id": session.login.user_id or session.login.email,
        "user_email": session.login.email,
        "account_id": session.login.account_id,
        "branch": session.places["vcs.ref.head.name"],
        "environment": session.places["deployment.environment.name"],
        "classification_label": session.label or "general",
        "session_date": session.session_date,
        "masque": window.masque,
        "attribution": window.attribution,
        "started_at": window.started_at,
        "ended_at": window.ended_at,
        "explicit_end": window.explicit_end,
        "active_s": window.active_ms / 1000,
        "status": window.status,
        "prompts": window.prompts,
        "total_tools": window.tools_ok + window.tools_failed,
        "tools_ok": window.tools_ok,
        "tools_failed": window.tools_failed,
        "tools_denied": window.tools_denied,
        "tools_unknown": window.tools_unknown,
        "api_requests": window.api_requests,
        "api_errors": window.api_errors,
        **(tokens if calls_api else dict.fromkeys(tokens)),
        "total_tokens": sum(tokens.values()) if calls_api else None,
        "cost_known_calls": window.api_requests,
        "missing_events": window.missing_events,
        "models": sorted(window.output_tokens_by_model),
    }


def test_every_window_of_every_session_is_found_exactly_as_it_was(outcome: Outcome) -> None:
    found = outcome.rows()
    wanted = {
        (session.organization_id, window.session_key): expected(session, window)
        for session in outcome.truth.sessions
        for window in session.windows
    }

    assert found.keys() == wanted.keys()
    assert len(wanted) > 3 * 20
    for key, row in wanted.items():
        assert {name: found[key][name] for name in row} == row


def test_what_every_window_cost_is_found_to_the_billionth_of_a_dollar(outcome: Outcome) -> None:
    found = outcome.rows()

    for key, window in outcome.truth.windows().items():
        if window.api_requests + window.api_errors:
            assert found[key]["cost_usd"] == pytest.approx(window.cost_usd, abs=1e-9, rel=0)
        else:
            assert found[key]["cost_usd"] is None


def test_every_line_and_record_that_was_written_is_counted_once(outcome: Outcome) -> None:
    counts, delivery = outcome.report.counts, outcome.truth.delivery

    assert counts.bytes == delivery.bytes
    assert counts.lines == delivery.lines
    assert counts.quarantined == delivery.broken == outcome.workplace.quarantined()["lines"].sum()
    assert counts.skipped == delivery.metrics
    assert counts.unknown_records == delivery.traces  # spans of no kind that is read
    assert counts.attribution_lines == delivery.attribution_lines
    assert counts.events == delivery.records + delivery.resent_records + delivery.dons_and_doffs
    assert delivery.broken > 0
    assert delivery.metrics > 0
    assert delivery.traces > 0
    nothing = ("repeated_records", "unattributed", "time_anomalies", "value_anomalies")
    assert [getattr(counts, name) for name in (*nothing, "out_of_range")] == [0] * 5


def test_what_was_sent_twice_is_there_once(outcome: Outcome) -> None:
    delivery = outcome.truth.delivery

    assert delivery.resent_records > 0
    assert sum(day.facts["duplicates"] for day in outcome.built) == delivery.resent_records
    assert outcome.workplace.events().height == delivery.records + delivery.dons_and_doffs


def test_a_few_dozen_sessions_hold_everything_that_happens_to_sessions(outcome: Outcome) -> None:
    sessions = outcome.truth.sessions
    windows = list(outcome.truth.windows().values())

    assert {window.attribution for window in windows} == {"baseline", "clean", "mixed", "remainder"}
    assert {window.status for window in windows} == {"completed", "failed", "cancelled"}
    assert {window.explicit_end for window in windows} == {False, True}
    assert {session.label for session in sessions} == {
        "simple",
        "code",
        "complex",
        "multi-step",
        None,
    }
    assert {session.organization_id for session in sessions} == {"orchard", "lighthouse"}
    assert len({session.person for session in sessions}) == 12
    assert any(session.windows[-1].ended_at.date() > session.session_date for session in sessions)
    assert any(_is_a_b_a(session) for session in sessions)
    assert any(_rests(window) for window in windows)
    assert any(len(window.output_tokens_by_model) == 2 for window in windows)
    for name in ("tools_failed", "tools_denied", "tools_unknown", "api_errors", "missing_events"):
        assert any(getattr(window, name) for window in windows), name


def _is_a_b_a(session: SessionTruth) -> bool:
    masques = [window.masque for window in session.windows]
    return len(masques) == 3 and masques[0] == masques[2] != masques[1] and None not in masques


def _rests(window: WindowTruth) -> bool:
    """Whether it was left alone for hours and taken up again."""
    asleep_ms = window.ended_ms - window.started_ms - window.active_ms
    return timedelta(milliseconds=asleep_ms) > timedelta(hours=1.5)


@pytest.mark.parametrize("mishap", MISHAPS)
def test_a_mishap_puts_one_thing_into_quarantine_and_loses_nothing(
    workplace: Workplace, mishap: Mishap
) -> None:
    record = (
        '{"timeUnixNano":"1795295032668000000","body":{"stringValue":"claude_code.user_prompt"},'
        '"attributes":[{"key":"session.id","value":{"stringValue":"s1"}}]}'
    )
    request = f'{{"scopeLogs":[{{"logRecords":[{record},{record.replace("032668", "032669")}]}}]}}'

    workplace.land("agents.jsonl", b"".join(line + b"\n" for line in mishap([request])))
    workplace.land("sound.jsonl", logs_line([request]) + b"\n")
    report = workplace.ingest()

    assert workplace.quarantined()["lines"].sum() == report.counts.quarantined == 1
    assert report.counts.events == 2 * 2
    assert workplace.landed()["event_id"].n_unique() == 2
