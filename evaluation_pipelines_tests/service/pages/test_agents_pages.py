"""Agents: their scores and why, whether they get better, and where their links lead."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime

import polars as pl
from starlette.testclient import TestClient

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.attention.digest import make_digest
from evaluation_pipelines.reputation.domain.signals import identity_id
from evaluation_pipelines.reputation.submitted import SubmittedEvaluations
from evaluation_pipelines.schemas import AGENT_WINDOWS, REPUTATION_SCORES
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines_tests.judged import fill
from evaluation_pipelines_tests.scorecards.calls_profile import DAY, build, profile_file
from evaluation_pipelines_tests.service.answers import A1, work
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.agent_evaluations import evaluate, export_agents
from evaluation_pipelines_tests.service.pages.tables import rows_of, tables_of
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line


def test_agents_count_evaluations_that_are_not_exported_yet(reader: TestClient) -> None:
    rows = rows_of(reader.get("/agents.csv").content).filter(agent_id="scout")
    # Newest first: 9 passes until the failed one; 400 * 0.9 + 250 * (1 - 40/100)
    # + 200 * 9/50 + 150 * 60/500 = 360 + 150 + 36 + 18 = 564.
    assert rows.select("organization_id", "score", "lifecycle").rows() == [
        ("acme", 564, "active"),
        ("beta", None, "calibrating"),
    ]
    page = reader.get("/agents").text
    assert "<strong>564</strong>" in page
    assert "<strong>3/50</strong>" in page
    assert "90% interval" in page  # as the column pass_rate_low says
    assert "/agents/scout?organization=acme" in page
    only = reader.get("/agents?lifecycle=active").text
    assert "3/50" not in only


def test_an_agent_has_its_score_over_time_and_why(reader: TestClient) -> None:
    page = reader.get("/agents/scout?organization=acme").text
    record = reader.get("/v1/reputation/scout?organization=acme").json()
    assert f"<strong>{record['score']}</strong> of 1000" in page
    for points, most in ((360, 400), (150, 250), (36, 200), (18, 150)):
        assert f'<td class="n">{points}</td><td class="n">{most}</td>' in page
    assert 'aria-label="Rating over time"' in page
    assert "No signals in the last 90 days" in page
    assert "3/50" in reader.get("/agents/scout?organization=beta").text
    assert reader.get("/agents/nothing").status_code == 404


def test_an_agent_of_several_organizations_has_an_answer_for_each_and_leads_to_it(
    reader: TestClient,
) -> None:
    while "data-reload-after" in (page := reader.get("/agents/claude-code").text):
        time.sleep(0.05)
    answer, _, organizations = page.partition(">Organizations<")
    few = "Too few sessions"
    said = re.findall(r"<p>(\w+): <strong>([^<]+)\.</strong>", answer)
    assert said == [("acme", few), ("beta", few)]
    rows = tables_of(page)[-1]
    assert [tuple(row.values()) for row in rows] == [
        ("acme", "3", "too few sessions"),
        ("beta", "2", "too few sessions"),
    ]
    assert 'href="/agents/claude-code?organization=beta"' in organizations
    assert ">5 sessions." in reader.get("/sessions?program=claude_code").text
    day = "from=2026-06-01&to=2026-06-02"
    while "data-reload-after" in (page := reader.get(f"/agents/claude-code?{day}").text):
        time.sleep(0.05)
    assert re.findall(r"2026-06-01 to 2026-06-02 has (\d)", page) == ["3", "2"]
    assert [table["Trend"] for table in tables_of(page)[-1]] == ["too few sessions"] * 2
    # Of evaluations that other programs sent there is nothing to compare.
    assert tables_of(reader.get("/agents/scout").text)[-1][1]["Organization"] == "beta"


def test_the_overview_and_the_agents_say_who_gets_worse(
    compared: Service, reader: TestClient, reader_keys: dict[str | None, str]
) -> None:
    for url in ("/", "/agents"):
        while "Comparing agents" in (page := reader.get(url).text):
            time.sleep(0.05)
        assert "No agent has recent sessions" in page
    then = datetime(2026, 6, 3, tzinfo=UTC)
    of_then = Service(compared.workplace, then).client(reader_keys[None])
    while "Comparing agents" in (page := of_then.get("/").text):
        time.sleep(0.05)
    assert "No agent's score clearly rose or fell." in page
    assert "2 more: too early to tell." in page  # one of each organization


def call_lines(day: int, failed: int) -> Iterator[bytes]:
    """Yield a session of each of two people with ten calls."""
    for person in ("ann", "ben"):
        about = {"session__id": f"{person}{day}", "user__email": f"{person}@acme.example"}
        calls = (
            claude("tool_result", day * DAY_S + at, tool_name="Bash", success=at >= failed, **about)
            for at in range(10)
        )
        yield line(claude("user_prompt", day * DAY_S, **about), *calls)


def test_an_agent_whose_calls_fail_more_is_getting_worse_on_every_page(
    workplace: Workplace,
) -> None:
    failed = dict.fromkeys(range(155, 160), 1) | dict.fromkeys(range(177, 182), 5)
    fill(workplace, *(line for day in failed for line in call_lines(day, failed[day])))
    evaluate(workplace, "default", "claude-code", 3)
    service = Service(workplace, datetime(2026, 12, 1, 12, tzinfo=UTC))
    said = "failed calls up from 10% to 50%"
    for organization in (None, "default"):
        client = service.client(service.key(Role.READER, organization))
        for url in ("/", "/agents", "/agents/claude-code?organization=default"):
            while "Comparing agents" in (page := client.get(url).text):
                time.sleep(0.05)
            assert f"claude-code: {said}</a>" in page
        (row,) = tables_of(client.get("/agents?trend=getting+worse").text)[-1]
        assert row["Trend"].startswith("getting worse")
        assert "No matching agents" in client.get("/agents?trend=getting+better").text
        assert client.get("/agents?trend=worse").status_code == 400
    week = make_digest(workplace.stores, date(2026, 11, 24), date(2026, 11, 30), NOW)
    assert f"agent claude-code: {said} (organization default)" in week.worse


def test_a_link_to_an_agent_or_a_session_leaves_the_chosen_organization(
    reader: TestClient,
) -> None:
    for path in ("/agents/scout?organization=acme", "/sessions/b1%23baseline-1?organization=beta"):
        head = reader.get(path).text.partition("</header>")[0]
        assert 'href="/models"' in head  # of all, as before
        chosen = reader.get(f"{path}&chosen=beta").text.partition("</header>")[0]
        assert 'href="/models?organization=beta"' in chosen
    page = reader.get("/agents?organization=beta").text
    assert "/agents/scout?organization=beta&amp;chosen=beta" in page


def test_the_page_of_an_agent_has_its_answer_from_that_of_all_agents(reader: TestClient) -> None:
    while "Comparing agents" in reader.get("/agents").text:
        time.sleep(0.05)
    page = reader.get("/agents/claude-code?organization=beta").text
    assert "Comparing scores" not in page


def test_evaluations_of_an_agent_are_downloaded_with_their_sessions(reader: TestClient) -> None:
    scout = rows_of(reader.get("/evaluations.csv?agent=scout&organization=acme").content)
    assert (scout.height, scout["passed"].sum()) == (60, 54)  # every tenth has failed
    assert scout["evaluation_id"][0] == "scout-59"  # the newest
    by_session = rows_of(reader.get("/evaluations.csv?agent=claude-code&organization=acme").content)
    newest_first = ["a2#baseline-1", "same#baseline-1", "a1#baseline-1"]
    assert by_session["session_key"].to_list() == newest_first
    assert by_session["effective_100"].to_list() == [90.0] * 3
    assert reader.get("/evaluations.csv?agent=none").status_code == 404


def test_a_download_has_as_many_evaluations_as_its_link_says(workplace: Workplace) -> None:
    evaluate(workplace, "acme", "scout", 260)
    sent = SubmittedEvaluations(workplace.ledger).newest("acme", "scout", NOW)
    older = pl.concat_str(pl.lit("exported-"), "evaluation_id")
    windows = sent.with_columns(evaluation_id=older, evaluations_in_all=pl.lit(260, pl.Int64))
    workplace.lake.write(windows.sort(AGENT_WINDOWS.order), AGENT_WINDOWS, None)
    client = Service(workplace).client()
    # 260 of the last export and 260 since: the newest 500 count.
    assert "Download CSV (500)</a>" in client.get("/agents/scout").text
    assert rows_of(client.get("/evaluations.csv?agent=scout").content).height == 500


def test_an_agent_whose_only_session_awaits_review_is_named_without_its_reputation(
    workplace: Workplace,
) -> None:
    profile_file(workplace, worst=11)
    workplace.land("logs.jsonl", work("acme", "a1", 0, agent="solo"))
    build(workplace)
    export_agents(workplace)
    identity = {"identity_id": f"{identity_id('acme', 'solo')}", "computed_at": NOW}
    known = pl.DataFrame([{**identity, "total_events": 5}], REPUTATION_SCORES.schema)
    workplace.lake.write(known, REPUTATION_SCORES, None)
    client = Service(workplace).client()
    (row,) = tables_of(client.get("/agents").text)
    assert (row[0]["Agent"], row[0]["Rating"]) == ("solo", "1/50")
    sample = AuditSample(DAY, "acme", A1, "calls", "0", NOW)
    OverrideStore(workplace.ledger).add_samples([sample])
    page = client.get("/agents").text
    assert tables_of(page) == []  # it was among the identities known only from external signals
    assert "Not rated yet, because their scored sessions await review: <a href" in page
    assert "/agents/solo?organization=acme" in page
    assert "No evaluated agents yet" not in page


def test_an_agent_with_another_score_is_not_rated_because_the_update_is_missing(
    workplace: Workplace,
) -> None:
    profile_file(workplace, worst=11)
    both = (work("acme", name, 0, agent="solo") for name in ("a1", "a2"))
    workplace.land("logs.jsonl", b"".join(both))
    build(workplace)
    sample = AuditSample(DAY, "acme", A1, "calls", "0", NOW)
    OverrideStore(workplace.ledger).add_samples([sample])
    client = Service(workplace).client()
    page = client.get("/agents").text
    assert "Run <code>evaluation-pipelines reputation update</code>" in page
    assert "Not rated yet" not in page
    evaluate(workplace, "acme", "scout", 1)
    page = client.get("/agents").text
    (table,) = tables_of(page)
    assert [row["Agent"] for row in table] == ["scout"]
    reason = "Not rated yet, until <code>evaluation-pipelines reputation update</code> loads "
    assert re.search(reason + r'their scores: <a href="/agents/solo\?organization=acme">solo', page)
    assert "await review" not in page  # of its two scores one does not
    # Until a session has ended, the update does not load its score.
    during = Service(workplace, datetime(2026, 6, 1, 12, 1, tzinfo=UTC)).client()
    page = during.get("/agents").text
    assert ("No evaluated agents yet" in page, "await review" in page) == (False, True)


def test_agents_whose_scores_are_not_loaded_are_named_beside_those_whose_scores_wait(
    workplace: Workplace,
) -> None:
    profile_file(workplace, worst=11)
    both = (
        work("acme", f"{name}1", 0, agent=agent) for name, agent in (("a", "solo"), ("b", "duo"))
    )
    workplace.land("logs.jsonl", b"".join(both))
    build(workplace)
    sample = AuditSample(DAY, "acme", A1, "calls", "0", NOW)
    OverrideStore(workplace.ledger).add_samples([sample])
    page = Service(workplace).client().get("/agents").text
    assert "No evaluated agents yet" in page
    for reason, agent in (("await review", "solo"), ("loads their scores", "duo")):
        assert re.search(rf'{reason}: <a href="/agents/{agent}\?organization=acme">', page)
