"""Errors as people see them: what happened, and which page helps."""

import pytest
from starlette.testclient import TestClient

CASES = (
    ("/sessions/none", "The session does not exist.", 'href="/sessions">Sessions'),
    ("/sessions?sort=x", "sort must be one of", 'href="/sessions">Sessions'),
    ("/trends?from=x", "from must be", 'href="/trends">Trends'),
    ("/agents/none", "The agent does not exist.", 'href="/agents">Agents'),
    ("/evaluations.csv", "query.agent", 'href="/">Overview'),
    ("/nothing", "There is no such page.", 'href="/">Overview'),
)


@pytest.mark.parametrize(("url", "said", "link"), CASES)
def test_an_error_names_no_route_and_leads_to_a_page(
    clients: dict[str, TestClient], url: str, said: str, link: str
) -> None:
    answer = clients["reader"].get(url, headers={"Accept": "text/html"})
    text = answer.text.partition("<main")[2].partition("</main>")[0]
    assert answer.status_code in {400, 404}
    assert said in text
    assert link in text
    for name in ("/api", "openapi", "GET "):
        assert name not in text


def test_programs_are_told_the_route(clients: dict[str, TestClient]) -> None:
    error = clients["reader"].get("/sessions/none").json()["error"]
    assert error["help"] == "GET /api/v1/sessions lists them."
