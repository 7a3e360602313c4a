"""Models and trends: the same figures as analysts, who is missing, hostile text."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

from starlette.testclient import TestClient

from evaluation_pipelines_tests.scorecards.calls_profile import build, profile_file
from evaluation_pipelines_tests.service.answers import work
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.tables import rows_of
from evaluation_pipelines_tests.workplace import open_workplace

DAYS = "from=2026-06-01&to=2026-06-02"


def wait_for_comparison(reader: TestClient, page: str) -> str:
    """Return a page of models after its comparison was computed."""
    assert reader.get(page.replace("/models", "/models.csv")).status_code == 200
    return reader.get(page).text


def test_the_first_page_has_score_and_cost_of_ranked_models(tmp_path: Path) -> None:
    with open_workplace(tmp_path) as workplace:
        profile_file(workplace)
        # 30 sessions of each, of 90 points, since one call of ten was made.
        cheap = [work("acme", f"a{number}", number * 60) for number in range(30)]
        dear = [work("acme", f"b{number}", number * 60) for number in range(30)]
        changed = b"".join(dear).replace(b"model-a", b"model-b").replace(b"0.01", b"0.03")
        workplace.land("logs.jsonl", b"".join(cheap) + changed)
        build(workplace)
        client = Service(workplace, datetime(2026, 6, 3, tzinfo=UTC)).client()
        assert "model-b" in wait_for_comparison(client, "/models")
        shown = client.get("/").text
    table = shown[shown.index("Cost per session") :].partition("</table>")[0]
    cells = re.findall("<td[^>]*>([^<]+)</td>", table)
    assert cells == ["model-a", "90.0", "$0.010", "model-b", "90.0", "$0.030"]


def test_models_are_compared_for_a_label_and_a_time(reader: TestClient) -> None:
    page = wait_for_comparison(reader, f"/models?{DAYS}&label=simple")
    assert "Sessions started 2026-06-01 to 2026-06-02 (UTC), label simple" in page
    assert re.search(r"too few sessions<span class=\"small\">one model, \d+ of 30<", page)
    link = re.search(r'href="(/sessions\?[^"]*model=model-a[^"]*)"', page)
    assert link
    sessions = reader.get(link[1].replace("&amp;", "&")).text
    assert ">5 sessions." in sessions
    assert "/sessions/a1%23baseline-1?organization=acme" in page  # one of the worst
    left_out = page[page.index('id="left-out"') :]
    assert left_out.count("/sessions/a1%23baseline-1?organization=acme") == 1  # an example
    assert "No scored sessions" in wait_for_comparison(reader, "/models")  # the last 28 days
    # The cost is of the sessions that are compared: there is no filter by agent.
    wait_for_comparison(reader, f"/models?{DAYS}")
    assert "(5 sessions)" in reader.get(f"/models?{DAYS}&agent=none").text


def test_other_groups_are_compared_on_the_page(reader: TestClient) -> None:
    page = wait_for_comparison(reader, f"/models?{DAYS}&by=environment")
    assert "(UTC), compared by environment" in page
    assert '<option value="environment" selected>' in page
    assert reader.get("/models?by=weather").status_code == 400


def test_the_overview_says_how_many_sessions_have_a_score(
    compared: Service, reader_keys: dict[str | None, str]
) -> None:
    service = Service(compared.workplace, datetime(2026, 6, 3, tzinfo=UTC))
    every, one = (service.client(reader_keys[of]).get("/").text for of in (None, "beta"))
    assert "Coverage: 5 of 5 sessions have a score" in every
    assert ">5 scored by profile</a>" in every
    assert "Coverage: 2 of 2 sessions have a score" in one


def test_who_has_not_used_it_is_named_with_the_day_of_the_last_session(
    reader: TestClient,
) -> None:
    url = "/trends?from=2026-06-02&to=2026-06-02&by=label&step=all"
    page = reader.get(url).text
    lines = re.findall(
        r'<tr><td class="name wide">(\w+)</td><td data-name="Last session">([\d-]+)</td>', page
    )
    assert lines == [("simple", "2026-06-02")]
    whole = rows_of(reader.get(url.replace("/trends", "/trends.csv")).content)
    assert whole.select("name", "sessions").rows() == [("simple", 1)]
    assert "people are not shown here" in page
    by_agent = reader.get("/trends?from=2026-06-03&to=2026-06-03&by=label&step=all").text
    last = r'simple</td><td data-name="Last session">2026-06-02</td>\s*<td [^>]+>0</td>'
    assert re.search(last, by_agent)


def test_merges_are_open_for_ninety_days(tmp_path: Path) -> None:
    merged = {"organization": "acme", "session_id": "a1", "kind": "merged"}
    with open_workplace(tmp_path) as workplace:
        workplace.land("logs.jsonl", work("acme", "a1", 0))
        workplace.land("outcomes/ci.jsonl", json.dumps(merged).encode() + b"\n")
        workplace.ingest()
        workplace.build()
        last, after = (
            Service(workplace, at).client().get("/trends?from=2026-06-01&to=2026-06-01").text
            for at in (datetime(2026, 8, 30, tzinfo=UTC), datetime(2026, 8, 31, tzinfo=UTC))
        )
    assert "Sessions since 2026-06-01 may still be merged" in last
    assert "may still be merged" not in after


def test_what_cannot_be_asked_is_400(reader: TestClient) -> None:
    for page in (
        "/trends?by=person",  # people are not shown here
        "/trends?person=x",
        "/trends?by=x",
        "/trends?step=x",
        "/trends?from=0001-01-01",
        "/models?to=9999-12-31",
        "/models?from=2026-06-02&to=2026-06-01",
        "/trends?from=2026-06-02&to=2026-06-01",
        "/agents?sort=x",
        "/agents?lifecycle=x",
    ):
        assert reader.get(page).status_code == 400, page
