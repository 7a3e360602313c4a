"""Pages of a session: its score and reason, and what is said when little was logged."""

import csv
import html
import json
import re
import time
from html import unescape
from pathlib import Path
from urllib.parse import quote

from starlette.testclient import TestClient

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import JUDGE_DOWN, reported
from evaluation_pipelines.judging.ledger.score_queries import newest_scoring
from evaluation_pipelines_tests.judge_scripts import says
from evaluation_pipelines_tests.judged import fill, session_with_texts
from evaluation_pipelines_tests.service.answers import A1, answering
from evaluation_pipelines_tests.service.clients import Service, form_token
from evaluation_pipelines_tests.service.pages.agent_evaluations import export_agents
from evaluation_pipelines_tests.service.pages.hostile import KEY
from evaluation_pipelines_tests.service.scoring_service import (
    ScoringService,
    open_service,
    wait_for,
)
from evaluation_pipelines_tests.workplace import NOW
from evaluation_pipelines_tests.world import DAY_S, claude, line, session

A1_PAGE = f"/sessions/{quote(A1, safe='')}"
ATTACKED = f"/sessions/{quote(KEY, safe='')}"


def test_a_score_by_a_person_counts_at_once(hostile: ScoringService) -> None:
    page = hostile.client().get(f"{ATTACKED}/score").text
    assert re.search(r'Score <strong class="score red" title="red">41.5</strong>', page)
    assert ". Automatic score: " in page[: page.index("Judge score")]
    assert ">64</strong>" in page  # of the judge
    assert "no verdict" in page  # of the scoring before
    assert "The score (0-100) is the first available of: human, profile, judge, composite" in page
    for view in ("", "/technical"):
        other = hostile.client().get(f"{ATTACKED}{view}").text
        reason = other.partition('<p class="small">Scored by ')[2].partition("</p>")[0]
        assert ". Automatic score: " in reason
        assert "why&lt;script&gt;" in reason


def test_a_score_is_explained_by_its_source_and_its_lowest_criteria(service: Service) -> None:
    failed = {
        name: line(claude("api_error", 5, session__id=name, model="aspen", error="overloaded"))
        for name in ("late", "start")
    }
    fill(
        service.workplace,
        session("half", calls=("Read", "Edit!")) + session("full", 60) + session("late", 120),
        session("bad", 180, calls=("Read!", "Read!", "Read!"), masque="Scout"),
        *failed.values(),
        line(claude("user_prompt", 240, session__id="quiet")),
    )
    client = service.client()
    profile = "Profile general-performance."
    expected = {
        # 1 of 2 calls: quality 5, autonomy 4, productivity 10 of 10; weights 30, 25, 20.
        "half": f"{profile} Lowest criteria (0-100): tool effectiveness 50.0, composite 60.0. <a",
        # Its one call succeeded: quality 10, autonomy 2, productivity 10.
        "full": f"{profile} Lowest criteria (0-100): composite 73.3. <a",
        "late": f"Failed (1 model API error): does not count as passed. {profile}",
        "start": "Failed before any tool call (1 model API error): score 0.",
        "quiet": "No score. Cancelled before any tool call. No scorecard: every criterion is ",
    }
    for name, said in expected.items():
        score = client.get(f"/sessions/{name}/score").text
        assert said in score[: score.index("Judge score")], name
        assert f'<p class="small">{said}' in client.get(f"/sessions/{name}").text
    assert "1.0 s active, 1 tool call, cost unknown" in client.get("/sessions/full").text
    doff = '<abbr title="To take the masque off: the composite is below 4.0">doff</abbr>'
    assert doff in client.get("/sessions").text


def test_the_list_of_what_people_scored_has_their_words_for_who_reads_texts(
    tmp_path: Path,
) -> None:
    with answering(tmp_path) as service:
        operator, reader = (service.key(role, "acme") for role in (Role.OPERATOR, Role.READER))
        client = service.client(operator)
        sent = form_token(client, f"{A1_PAGE}/score") | {"score": "7", "annotator": "Ann"}
        client.post(f"{A1_PAGE}/override", data={**sent, "reason": "too early"})
        client.post(f"{A1_PAGE}/override", data={**sent, "reason": "it guessed"})

        (link,) = re.findall(r'href="([^"]+)">Human-scored</a>', client.get("/sessions").text)
        seen, unread = (service.client(key).get(unescape(link)).text for key in (operator, reader))
        page = client.get(f"{A1_PAGE}/score").text
        undo = re.findall(r'name="undo" value="(\d+)"', page)
        data = {"form_token": sent["form_token"], "undo": undo[0]}
        undone = client.post(f"{A1_PAGE}/override", data=data).text
        before = client.get(unescape(link)).text

    said = "human score 7.0 (automatic: 90.0)"
    assert why_of(seen) == [f"{said} “it guessed”"]
    assert why_of(unread) == [said]
    assert undo == ["2"]  # the score that counts
    assert "it guessed" not in undone.partition("</main>")[0]
    assert why_of(before) == [f"{said} “too early”"]  # the one before counts again


def test_a_list_by_score_says_how_many_share_the_lowest(reader: TestClient) -> None:
    rows = list(csv.DictReader(reader.get("/sessions.csv").text.splitlines()))
    scores = sorted(float(row["effective_100"]) for row in rows if row["effective_100"])
    assert scores.count(scores[0]) > 1
    said = f"{scores.count(scores[0])} with the same lowest score, latest first"
    assert said in reader.get("/sessions?sort=score").text
    assert "lowest score, latest" not in reader.get("/sessions?sort=-score").text


def why_of(page: str) -> list[str]:
    """Return the text of the cells that say why a score is low."""
    cells = re.findall(r'<td class="why"[^>]*>(.*?)</td>', page, re.DOTALL)
    return [re.sub("<[^>]+>", "", cell).strip() for cell in cells]


def test_a_session_without_a_result_is_named_so_beside_its_figures(service: Service) -> None:
    error = claude("api_error", 5, session__id="broken", model="aspen-4", error="overloaded")
    calls = [
        claude("tool_result", second, session__id="broken", tool_name="Read", success="true")
        for second in (1, 2, 3, 4)
    ]
    prompts = [claude("user_prompt", 0, session__id=name) for name in ("broken", "quiet")]
    fill(service.workplace, line(*prompts, *calls, error))
    export_agents(service.workplace)
    client = service.client()
    sessions = client.get("/sessions").text
    assert sessions.count('<span class="tag bad">failed</span>') == 1
    assert sessions.count('<span class="tag">cancelled</span>') == 1
    assert '<span class="tag">cancelled</span>' in client.get("/sessions/quiet").text
    # Three quarters of its calls went well, but it is no session to keep.
    (row,) = csv.DictReader(client.get("/sessions.csv?status=failed").text.splitlines())
    said = "failed (1 model API error): does not count as passed"
    assert (row["recommendation"], row["why"]) == ("", said)
    assert f">{said}</td>" in html.unescape(sessions)
    assert "broken" not in client.get("/sessions.csv?recommendation=keep").text
    assert not re.search(r"Composite.*keep", client.get("/sessions/broken").text)
    worst = client.get("/").text.partition('id="worst"')[2]
    assert re.search(
        r'href="/sessions/broken[^"]*">.*failed.*failed \(1 model API error', worst, re.DOTALL
    )
    # All calls went well, but a session without a result does not pass.
    agent = client.get("/agents/claude-code?organization=default").text
    assert '>not passed</span> <span class="small">the session failed</span>' in agent


def test_a_session_without_a_score_is_linked_from_the_first_page_with_its_reason(
    service: Service,
) -> None:
    yesterday = 182 * DAY_S  # from 2026-06-01, seen on 2026-12-01
    quiet = line(claude("user_prompt", yesterday, session__id="quiet"))
    fill(service.workplace, quiet, session("s1", yesterday))
    client = service.client()
    first_page = client.get("/").text
    (url,) = re.findall(
        r'Coverage: 1 of 2 sessions have a score, <a href="([^"]+)">1 does not</a>',
        first_page,
    )
    listed = client.get(html.unescape(url)).text
    assert "1 of 2 sessions." in listed
    assert 'title="general-performance: every criterion is unknown"' in listed
    assert '<a href="#new-score">Score it</a>' in client.get("/sessions/quiet/score").text


def test_an_agent_without_an_evaluation_has_a_page(service: Service) -> None:
    fill(service.workplace, line(claude("user_prompt", 182 * DAY_S, session__id="quiet")))
    assert service.client().get("/agents/claude-code?organization=default").status_code == 200


def test_sessions_without_enough_text_may_have_a_score_which_the_coverage_says(
    service: Service,
) -> None:
    yesterday = 182 * DAY_S
    failed = claude("api_error", yesterday + 5, session__id="failed", model="aspen", error="busy")
    fill(
        service.workplace,
        line(claude("user_prompt", yesterday, session__id="quiet")),
        line(claude("user_prompt", yesterday, session__id="failed"), failed),
    )
    page = service.client().get("/").text
    # Both sessions have no text, and the failed one has the score 0.
    assert "Coverage: 1 of 2 sessions have a score" in page
    assert ">2 not enough text</a>" in page
    assert "In any state, a session can have a score from a person, or 0 because it failed." in page


def test_texts_that_were_not_logged_are_named_once_and_take_a_line_each(service: Service) -> None:
    records = (
        claude("user_prompt", 0, session__id="s1", prompt_length=82),
        claude("assistant_response", 1, session__id="s1", response_length=65),
    )
    fill(service.workplace, line(*records))
    client = service.client()
    conversation = client.get("/sessions/s1").text
    assert conversation.count("No text was logged") == 1
    assert 'Prompt <span class="small muted">not logged: text (82 characters)<' in conversation
    assert "cancelled" not in conversation
    score = client.get("/sessions/s1/score").text
    assert score.count("Not logged") == 2  # the task and the final answer
    # It made no call, so that none failed.
    assert '<td class="n" data-name="Failed calls">-</td>' in client.get("/sessions").text


def test_a_later_part_of_a_session_says_on_which_day_it_is_counted(service: Service) -> None:
    records = [claude("user_prompt", second, session__id="long") for second in (0, DAY_S + 60)]
    don = {"session_id": "long", "masque": "Scout", "donned_at": "2026-06-02T12:00:00Z"}
    fill(service.workplace, line(*records), json.dumps(don).encode() + b"\n")
    listed = service.client().get("/sessions?from=2026-06-01&to=2026-06-01").text
    assert ">2 sessions." in listed
    assert listed.count("counted on 2026-06-01, when the session started") == 1


def test_sessions_without_a_model_are_counted_where_models_are_compared(service: Service) -> None:
    yesterday = 182 * DAY_S  # from 2026-06-01, seen on 2026-12-01
    quiet = [line(claude("user_prompt", yesterday, session__id=name)) for name in ("q1", "q2")]
    named = line(claude("api_error", yesterday, session__id="s1", model="aspen-4", error="late"))
    fill(service.workplace, *quiet, named)
    client = service.client()
    said = "Excludes 2 sessions with no model"
    assert said in client.get("/trends?by=model&step=all").text
    for page in ("/trends?by=label&step=all", "/trends?by=model", "/trends?step=all"):
        assert "Excludes" not in client.get(page).text
    while "data-reload-after" in (models := client.get("/models").text):
        time.sleep(0.05)
    assert "Not ranked: 2 (no score), 1 (fewer than 30" in models


def test_a_session_is_scored_without_a_script(tmp_path: Path) -> None:
    with open_service(tmp_path) as service, service.client() as client:
        page = "/sessions/s1%23baseline-1/score"
        assert "Not judged" in client.get(page).text
        answer = client.post(page, data=form_token(client, page), follow_redirects=False)
        where = f"{page}?organization=default"
        assert (answer.status_code, answer.headers["location"]) == (303, where)
        wait_for(lambda: not service.score().is_open)
        shown, total = client.get(where).text, service.score().total_score
        assert f">{total}</strong>" in shown
        assert "Judge again" in shown
        criteria = re.findall(r'<td class="n">(\d+) of (\d+)</td></tr>', shown)
        assert [sum(map(int, column)) for column in zip(*criteria, strict=True)] == [total, 100]
        assert f"judge {total}" in client.get("/sessions").text  # no build is needed
        assert total is not None
        band = "green" if total >= 75 else "yellow" if total >= 50 else "red"
        for judge in ("green", "yellow", "red", "unscored"):  # and neither does the filter
            is_found = f"judge {total}" in client.get("/sessions", params={"judge": judge}).text
            assert is_found == (judge == band), judge
        of_judge = client.get("/operations/judge").text
        assert "<strong>Working.</strong> judge-1, last judgment " in of_judge
        assert newest_scoring(service.workplace.ledger, "judge-2") is None  # it has not scored
        assert "1 judged by judge-1, 0 failed, cost $" in of_judge
        AlertStore(service.workplace.ledger).put(reported(JUDGE_DOWN, "judge", "refused"), NOW)
        assert "<strong>Not responding.</strong> Refused." in client.get("/operations/judge").text


def test_points_of_a_criterion_are_those_that_its_profile_could_give(tmp_path: Path) -> None:
    with open_service(tmp_path, session_with_texts("s1", classification__label="code")) as service:
        points = ("logical_flow: 30/34", "tool_relevance: 20/33", "synthesis_quality: 10/33")
        service.judge.script_turn("score", says("\n".join(("It was good.", "", *points, "60"))))
        client, page = service.client(), "/sessions/s1%23baseline-1/score"
        with client:
            client.post(page, data=form_token(client, page))
            wait_for(lambda: not service.score().is_open)
        shown = re.findall(r'class="n">(\d+) of (\d+)</td>', client.get(page).text)
        assert shown == [("30", "34"), ("20", "33"), ("10", "33")]


def test_a_person_confirms_the_score_that_the_form_names(tmp_path: Path) -> None:
    with open_service(tmp_path, session_with_texts("s1", classification__label="code")) as service:
        page = "/sessions/s1%23baseline-1/score"
        with service.client() as client:
            client.post(page, data=form_token(client, page))
            wait_for(lambda: not service.score().is_open)
            shown = client.get(page).text  # a score of code-hybrid takes a build
            named = re.search(r"Automatic score by general-performance: ([\d.]+)<", shown)
            assert named is not None, shown
            assert "applies until code-hybrid, a better match, scores the session" in shown
            assert "The judge score is newer and counts after the next build." in shown
            assert '<option value="logical_flow"' not in shown  # a criterion of code-hybrid
            fields = {"profile": "general-performance", "confirm": "1", "reason": "so it is"}
            sent = {**form_token(client, page), **fields, "annotator": "Ann"}
            assert (
                f"<strong>{named[1]}</strong> by Ann"
                in client.post(f"{page[:-6]}/override", data=sent).text
            )
