"""Forms that score a session, by the judge or by a person, and work without scripts."""

import re
from pathlib import Path

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import judge_down_alert
from evaluation_pipelines.judging.ledger.score_queries import newest_scoring
from evaluation_pipelines_tests.judge_scripts import says
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.service.clients import form_token
from evaluation_pipelines_tests.service.scoring_service import open_service, wait_for
from evaluation_pipelines_tests.workplace import NOW


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
        assert [sum(map(int, each)) for each in zip(*criteria, strict=True)] == [total, 100]
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
        AlertStore(service.workplace.ledger).put(judge_down_alert("refused"), NOW)
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
