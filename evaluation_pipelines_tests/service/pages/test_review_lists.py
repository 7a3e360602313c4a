"""The lists of the reviews page: filtered, sorted, and the same as files."""

from collections.abc import Iterator
from datetime import timedelta

import polars as pl
import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.scorecards.store import (
    AuditSample,
    NewOverride,
    OverrideStore,
)
from evaluation_pipelines_tests.scorecards.calls_profile import DAY
from evaluation_pipelines_tests.service.answers import A1, A2, B1, SAME, answering
from evaluation_pipelines_tests.service.pages.tables import tables_of
from evaluation_pipelines_tests.workplace import NOW

NEXT = DAY + timedelta(days=1)


def stale(owner: str, key: str, annotator: str) -> NewOverride:
    """Return a score of a person for an earlier content of a session."""
    return NewOverride(
        organization_id=owner,
        session_key=key,
        session_date=DAY,
        profile_id="calls",
        profile_version=1,
        content_hash="0",
        override_score=40,
        scale_min=0,
        scale_max=100,
        automatic_score=50,
        is_confirmation=False,
        source="person",
        annotator=annotator,
        reason="It went on.",
    )


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Three sessions wait, of two days, profiles and labels; two scores no longer count."""
    with answering(tmp_path_factory.mktemp("lists")) as service:
        waiting = [
            AuditSample(DAY, "beta", B1, "calls", "0", NOW, classification_label="simple"),
            AuditSample(DAY, "acme", A1, "other", "0", NOW, classification_label="code"),
            AuditSample(NEXT, "acme", A2, "calls", "0", NOW, classification_label="simple"),
        ]
        store = OverrideStore(service.workplace.ledger)
        store.add_samples(waiting)
        store.add([stale("acme", SAME, "Zoe"), stale("beta", SAME, "Ann")], NOW)
        yield service.client()


def shown(client: TestClient, fields: str) -> list[str]:
    """Return the sessions that wait, as the page shows them and as the file has them."""
    rows = tables_of(client.get(f"/reviews?{fields}").text)[0]
    on_page = [row["Session"].split()[0] for row in rows]
    csv = pl.read_csv(client.get(f"/reviews.csv?{fields}").content, infer_schema=False)
    assert csv["session_key"].to_list() == on_page
    return on_page


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("", [A1, B1, A2]),
        ("sort=-date", [A2, A1, B1]),
        ("sort=session", [A1, A2, B1]),
        ("sort=-profile", [A1, B1, A2]),
        ("profile=calls", [B1, A2]),
        ("label=code", [A1]),
        ("from=2026-06-02", [A2]),
        ("to=2026-06-01&profile=calls", [B1]),
        ("organization=beta", [B1]),
    ],
)
def test_what_waits_is_filtered_and_sorted(
    client: TestClient, fields: str, expected: list[str]
) -> None:
    assert shown(client, fields) == expected


def test_scores_that_no_longer_count_have_an_order_of_their_own(client: TestClient) -> None:
    for order, expected in (("by", ["Ann", "Zoe"]), ("-by", ["Zoe", "Ann"])):
        page = client.get(f"/reviews?sort=-date&stale-sort={order}").text
        waiting, old = tables_of(page)
        assert [row["Scored by"] for row in old] == expected
        assert [row["Session"].split()[0] for row in waiting] == [A2, A1, B1]
        file = client.get(f"/stale-scores.csv?stale-sort={order}").content
        assert pl.read_csv(file)["annotator"].to_list() == expected


def test_the_page_says_what_is_filtered_and_leads_to_the_same_file(client: TestClient) -> None:
    page = client.get("/reviews?profile=calls&sort=-date&reviewer=Ann").text
    assert "Awaiting review: 2 of 3" in page
    assert 'href="/reviews.csv?profile=calls&amp;sort=-date"' in page
    assert "No matching sessions. Remove a filter" in client.get("/reviews?label=none").text
    closed = '<details class="filters"><summary>'
    assert closed not in page
    assert closed in client.get("/reviews?sort=-date").text
    # A heading keeps filters and reviewer, and turns the order round.
    assert 'href="/reviews?profile=calls&amp;sort=date&amp;reviewer=Ann"' in page


@pytest.mark.parametrize("fields", ["sort=x", "stale-sort=x", "from=x"])
def test_what_cannot_be_asked_is_400(client: TestClient, fields: str) -> None:
    assert client.get(f"/reviews?{fields}").status_code == 400
