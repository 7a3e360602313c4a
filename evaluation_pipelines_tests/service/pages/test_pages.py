"""Every page: who sees what, hostile text, refused forms, and empty folders."""

import re
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pytest

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.comparison.prediction import write_predictions
from evaluation_pipelines.storage.lock import held
from evaluation_pipelines_tests.comparison.test_prediction import fill
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.scorecards.calls_profile import build
from evaluation_pipelines_tests.service.answers import A1, A2, answering, path_of
from evaluation_pipelines_tests.service.clients import Browse, Keys, Service, form_token
from evaluation_pipelines_tests.service.pages.hostile import KEY, payload
from evaluation_pipelines_tests.service.scoring_service import (
    ScoringService,
)
from evaluation_pipelines_tests.workplace import NOW

A1_PAGE = f"/sessions/{quote(A1, safe='')}"
BOOKS = "/operations/books/2026-06-01"
TOOLS = "/tools?from=2026-06-01&to=2026-06-02"
PAGES_OF_A1 = (A1_PAGE, f"{A1_PAGE}/technical", f"{A1_PAGE}/score")


@pytest.mark.parametrize("page", PAGES_OF_A1)
def test_a_reader_sees_figures_without_texts_and_is_told_why(browse: Browse, page: str) -> None:
    page_of_reader = browse(Role.READER, "acme").get(page)
    assert page_of_reader.status_code == 200
    for text in ("Read the plan", "secret-plan", "no such file"):
        assert text not in page_of_reader.text
    assert "Text requires a reviewer key." in page_of_reader.text
    assert '<button type="submit">Save' not in page_of_reader.text
    assert "Calculation" not in page_of_reader.text  # a column that would be empty


def test_an_ambiguous_name_leads_to_the_sessions_that_have_it(browse: Browse) -> None:
    client = browse(Role.READER)
    answer = client.get("/sessions/same")
    assert answer.status_code == 400
    links = re.findall(r'href="(/sessions/same[^"]*)"', answer.text)
    assert sorted(links) == [
        f"/sessions/same%23baseline-1?organization={owner}" for owner in ("acme", "beta")
    ]
    assert all(client.get(link).status_code == 200 for link in links)
    own = browse(Role.READER, "acme").get("/sessions/same")
    assert own.status_code == 200  # another organization's is no candidate


def test_a_reviewer_sees_prompt_call_and_error(browse: Browse) -> None:
    client = browse(Role.REVIEWER, "acme")
    assert "Read the plan" in client.get(A1_PAGE).text
    technical = client.get(f"{A1_PAGE}/technical").text
    assert "command: cat secret-plan.txt" in technical
    assert "no such file" in technical
    assert "Bash: FAILED" in technical
    of_score = client.get(f"{A1_PAGE}/score").text
    named = r'<td class="name time wide">([^<]+) <span class="tag good">score'
    (counts,) = re.findall(named, of_score)
    assert f"Automatic score by {counts}:" in of_score  # what a person would correct
    assert re.search(r"of \d calls lost, ", technical)
    without_loss = client.get(f"/sessions/{path_of(A2)}/technical").text
    assert " calls lost" in without_loss
    assert "calls lost, " not in without_loss


def test_steps_lead_to_the_next_ones(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation_pipelines.service.pages.session._STEPS", 1)
    client = browse(Role.READER)
    page = client.get(f"{A1_PAGE}/technical?organization=acme").text
    (following,) = re.findall(r'Steps 1 to 1 of \d. <a rel="next" href="([^"]+)"', page)
    assert following.startswith("/sessions/a1%23baseline-1/technical?")
    assert 'id="step-2"' in client.get(following.replace("&amp;", "&")).text


def test_the_list_is_filtered_sorted_and_paged_by_its_url(
    browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation_pipelines.service.pages.session_list._LIMIT", 2)
    client = browse(Role.REVIEWER)

    def listed(url: str) -> list[str]:
        page = client.get(url)
        assert page.status_code == 200, page.text
        return re.findall(r'<td class="time"><a href="/sessions/([^%]+)%23', page.text)

    assert listed("/sessions") == ["a2", "same"]  # the newest first
    following = re.search(r'rel="next" href="([^"]+)"', client.get("/sessions").text)
    assert following
    assert listed(following[1].replace("&amp;", "&")) == ["b1", "same"]
    assert listed("/sessions?sort=failed") == ["a2", "same"]  # equal ones in the usual order
    assert listed("/sessions?sort=-failed")[0] == "a1"
    assert listed("/sessions?organization=beta&to=2026-06-01") == ["same", "b1"]
    assert listed("/sessions?from=2026-06-02") == ["a2"]
    assert listed("/sessions?model=model-b") == []
    assert listed("/sessions?q=READ+the+plan&organization=beta") == ["same", "b1"]
    assert listed("/sessions?q=nothing+like+this") == []
    assert listed("/sessions?judge=failed") == []
    assert listed("/sessions?judge=unscored&score=green") == ["a2", "same"]
    for bad in ("sort=no", "from=june", "judge=x", "score=x", "cursor=xx"):
        assert client.get(f"/sessions?{bad}").status_code == 400
    assert browse(Role.READER, "acme").get("/sessions?q=plan").status_code == 403


def test_the_books_of_a_day_have_its_states_and_wait_for_no_build(
    browse: Browse, answered: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = browse(Role.READER)
    found = re.findall(
        r'state=(\w+)">[^<]+</a></td><td class="n" data-name="Sessions">(\d+)</td>',
        client.get(BOOKS).text,
    )
    assert {state: int(number) for state, number in found} == {"scored": 4}
    assert client.get(f"{BOOKS}?state=scored").text.count("/score?organization=") == 4
    assert "<strong>Balanced</strong>" in client.get(BOOKS).text
    of_acme = browse(Role.READER, "acme").get(BOOKS).text
    assert ">2 sessions, 2 scored</h2>" in of_acme
    assert "Balanced" not in of_acme  # they are about all organizations
    newest = client.get("/operations/books").text
    assert ">1 session, 1 scored</h2>" in newest
    assert "<h1>Books of 2026-06-01</h1>" in client.get("/operations/books?day=2026-06-01").text
    with held(answered.workplace.ledger, "build 2026-06-01"):
        waits = client.get(BOOKS).text  # without waiting for the build
        monkeypatch.setattr("evaluation_pipelines.service.pages.books.BUILD_PATIENCE_S", 0.1)
        assert client.get("/operations/books.csv?day=2026-06-01").status_code == 503
    assert "<h2>Being built</h2>" in waits
    assert "data-reload-after" in waits
    for bad in ("/operations/books/june", f"{BOOKS}?state=x", f"{BOOKS}?cursor=x"):
        assert client.get(bad).status_code in {400, 404}


def test_a_day_that_is_not_built_has_no_balance(browse: Browse) -> None:
    client = browse(Role.READER)
    future = client.get("/operations/books/2027-01-01").text
    assert "This day has not started" in future
    assert 'href="/operations/books/2026-06-02">2026-06-02<' in future
    past = client.get("/operations/books/2026-05-01").text
    assert "<strong>Not built</strong>" in past
    for page in (future, past):
        assert "alance" not in page


def test_the_books_of_one_organization_are_those_of_its_own_days(browse: Browse) -> None:
    of_beta = browse(Role.READER, "beta")
    chosen = "?organization=beta"
    for client, query in ((of_beta, ""), (browse(Role.READER), chosen)):
        newest = client.get(f"/operations/books{query}").text
        assert "<h1>Books of 2026-06-01</h1>" in newest
        assert ">2 sessions, 2 scored</h2>" in newest
        assert "2026-06-02" not in newest.partition("</form>")[0].partition("<h1>")[2]
        other = client.get(f"/operations/books/2026-06-02{query}").text
        assert "no session of beta on this day" in " ".join(other.split())


def test_a_session_says_what_counts_from_the_next_build_only(tmp_path: Path) -> None:
    with answering(tmp_path) as service:
        client = service.client()
        said = "In comparisons and reports after the next build."
        assert said not in client.get(f"{A1_PAGE}/score").text
        body = {"score": 40, "annotator": "Ann", "reason": "The plan was not found."}
        assert client.post(f"/api/v1{A1_PAGE}/override", json=body).status_code == 200
        page = client.get(f"{A1_PAGE}/score").text
        assert re.search(r"human, Ann</span>", page)
        assert said in page
        build(service.workplace)
        assert said not in client.get(f"{A1_PAGE}/score").text
        assert "Scored by Ann. Automatic score: " in client.get(A1_PAGE).text
        assert "The plan was not found." in client.get(A1_PAGE).text
        of_reader = service.browser(service.key(Role.READER, "acme")).get(A1_PAGE).text
        assert "Scored by Ann. Automatic score: " in of_reader
        assert "The plan was not found." not in of_reader  # which is a text


def test_the_error_of_a_tool_is_shown_to_who_reads_texts_with_a_session_that_has_it(
    browse: Browse,
) -> None:
    pages = {role: browse(role).get(TOOLS).text for role in (Role.READER, Role.REVIEWER)}
    assert "Most failures: <strong>Bash</strong>, 20%." in pages[Role.READER]
    (url,) = re.findall(r'1 failed with <a href="([^"]+)"', pages[Role.REVIEWER])
    assert url == "/sessions/a1%23baseline-1/technical?organization=acme"
    assert "no such file" not in pages[Role.READER]


def test_tools_and_books_are_filtered_sorted_and_downloaded(browse: Browse) -> None:
    client = browse(Role.READER)

    def rows(url: str) -> pl.DataFrame:
        return pl.read_csv(client.get(url).content, infer_schema_length=None)

    csv = TOOLS.replace("/tools", "/tools.csv")
    lost = rows(f"{csv}&organization=beta").select("tool", "sessions", "calls", "failed")
    assert lost.rows() == [("Bash", 2, 2, 0)]
    assert rows(f"{csv}&table=model")["sessions"].to_list() == [5]
    assert rows(f"{csv}&model=model-b").is_empty()
    assert "No tool calls in these sessions" in client.get(f"{TOOLS}&label=other").text
    leads = re.search(r'class="time"><a href="(/sessions[^"]+)">model-a<', client.get(TOOLS).text)
    assert leads
    assert ">5 sessions." in client.get(leads[1].replace("&amp;", "&")).text
    day = "/operations/books.csv?day=2026-06-01"
    assert rows(f"{day}&state=scored&sort=-session")["session_key"].to_list() == [
        *("same#baseline-1", "same#baseline-1", "b1#baseline-1", "a1#baseline-1"),
    ]
    assert rows(day).height == 4
    for bad in (f"{csv}&table=x", f"{csv}&sort=x", f"{TOOLS}&person=x", f"{day}&state=x"):
        assert client.get(bad).status_code in {400, 404}, bad
    assert client.get(f"{BOOKS}?state=scored&sort=x").status_code == 400


def test_a_session_and_a_day_lead_to_their_run_in_dagster(tmp_path: Path) -> None:
    with answering(tmp_path, dagster_url="https://runs.example/") as service:
        everyone = service.browser(service.key(Role.READER))
        run = "https://runs.example/assets/{}?view=partitions&amp;partition=2026-06-01"
        session = everyone.get(f"{A1_PAGE}?organization=acme").text
        assert run.format("agent_sessions") in session
        assert run.format("evaluation_books") in everyone.get(BOOKS).text
        of_acme = service.browser(service.key(Role.READER, "acme"))
        for page in (A1_PAGE, BOOKS):  # a run is about all organizations
            assert "runs.example" not in of_acme.get(page).text


def test_the_judge_page_and_the_terminal_show_which_scores_predict(
    service: Service, program: Program
) -> None:
    fill(service.workplace, 36, young=6)
    write_predictions(service.workplace.stores, NOW)

    page = service.browser().get("/operations/judge").text
    section = page.partition("Scores and outcomes")[2].partition("</ul>")[0]
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", section)
    # An AUC of 1, as in the tests of the table.
    assert cells[:3] == ["composite", "merged", "100"]
    assert cells[4] == "predicts"
    assert "6 sessions are younger than the horizon" in section

    program.set("EVAL_DATA_DIR", str(service.workplace.settings.data_dir))
    printed = program("scorecards", "calibration").out
    assert re.search(r"^composite +merged +100 .* predicts\b", printed, re.MULTILINE)
    assert "6 sessions are younger than the horizon" in printed


def test_an_empty_folder_says_what_to_do(service: Service) -> None:
    client = service.browser()
    for page in ("/", "/sessions", "/tools", "/models", "/agents", "/trends", "/operations/judge"):
        assert "No sessions yet" in client.get(page).text
    assert "CLAUDE_CODE_ENABLE_TELEMETRY=1" in client.get("/").text
    header = 'OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer KEY" claude'
    assert header not in client.get("/").text
    assert "No day is built yet" in client.get("/operations/books").text
    missing = client.get("/sessions/s1")
    assert missing.status_code == 404
    assert "The session does not exist." in missing.text
    with_key = service.browser(service.key(Role.READER)).get("/").text
    assert header in with_key
    assert "keys create NAME --role ingest" in with_key


MODELS, TRENDS = (f"/{name}?from=2026-06-01&to=2026-06-02" for name in ("models", "trends"))
ATTACKED = f"/sessions/{quote(KEY, safe='')}"
SHOWN = {
    "/": (),
    TOOLS: ("tool", "model", "missed", "lacking"),
    f"{BOOKS}?state=scored": ("label", "model"),
    "/sessions": ("email", "repository", "agent", "model", "label", "why"),
    ATTACKED: ("prompt", "reply", "version", "branch", "environment"),
    f"{ATTACKED}/technical": ("tool", "error", "name"),
    f"{ATTACKED}/score": ("analysis", "missing", "annotator", "why", "prompt", "reply"),
    MODELS: ("label", "model"),
    "/agents": ("agent",),
    f"/agents/{quote(payload('agent'), safe='')}": ("agent",),
    **{f"{TRENDS}&by={name}": (name,) for name in ("model", "agent", "label", "repository")},
    f"{TRENDS}&by=person": ("email",),
}
"""Page -> fields that it shows."""


@pytest.mark.parametrize("page", SHOWN)
def test_hostile_text_is_shown_as_text(hostile: ScoringService, page: str) -> None:
    client = hostile.client()
    if page == MODELS:  # waits until they are compared
        client.get(page.replace("/models", "/models.csv"))
    text = client.get(page).text
    for mark in ("<script>window", "<img", "<b>bold"):
        assert mark not in text
    for name in SHOWN[page]:
        assert f"{name}&lt;script&gt;window.obeyed=1&lt;/script&gt;" in text, name


def test_a_request_that_is_refused_says_why_on_the_page(answered: Service, keys: Keys) -> None:
    page, client = f"{A1_PAGE}/score", answered.client(keys[Role.OPERATOR, "acme"])
    answer = client.post(page, data={"form_token": "x"})
    assert answer.status_code == 403
    sent = form_token(client, page)
    refused = client.post(page, data=sent)
    assert refused.status_code == 503
    assert "Nothing can be scored: no judge is configured" in refused.text
    assert "No judge is configured: set EVAL_JUDGE_MODEL" in refused.text
    wrong = client.post(f"{A1_PAGE}/override", data={**sent, "score": "1O", "reason": "because"})
    assert wrong.status_code == 400
    assert "plain decimal number" in wrong.text
    assert ">because</textarea>" in wrong.text
    confirmed = {**sent, "confirm": "1", "annotator": "Ann", "reason": "so it is"}
    assert "A new score replaces" not in client.get(page).text
    after = client.post(f"{A1_PAGE}/override", data=confirmed).text
    assert "confirms" in after
    assert "A new score replaces the current one by Ann." in after
    for role, path in ((Role.REVIEWER, "score"), (Role.READER, "override")):
        answer = answered.client(keys[role, "acme"]).post(f"{A1_PAGE}/{path}", data=sent)
        assert answer.json()["error"]["code"] == "role_lacking"
