"""Sessions that were cancelled, failed or logged little: pages say so."""

import csv
import html
import json
import re
import time

from evaluation_pipelines_tests.judged import fill
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.agent_evaluations import export_agents
from evaluation_pipelines_tests.world import DAY_S, claude, line, session


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
    said = "failed (1 model API error), so not passed despite its score"
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


def test_words_of_the_trade_have_their_meaning_where_they_stand(service: Service) -> None:
    calls = [
        claude("tool_result", second, session__id="bad", tool_name="Read", success="false")
        for second in (1, 2, 3)
    ]
    don = {"session_id": "bad", "masque": "Scout", "donned_at": "2026-06-01T11:00:00Z"}
    records = [claude("user_prompt", 0, session__id="bad"), *calls]
    fill(service.workplace, line(*records), json.dumps(don).encode() + b"\n")
    client = service.client()
    doff = '<abbr title="To take the masque off: the composite is below 4.0">doff</abbr>'
    listed = client.get("/sessions").text
    assert doff in listed
    assert "the masque (the agent's persona): keep, review or doff" in listed
    (key,) = re.findall(r'<td class="time"><a href="([^"]+)"', listed)
    page = client.get(key).text
    assert doff in page
