"""The reviews page: blind answers, who may give them, and that they equal those of the command."""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.scorecards.audit_review import NO_REASON, AuditReview
from evaluation_pipelines.scorecards.overrides import overrides_with_states
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.tables.judging import AUDIT_STEPS
from evaluation_pipelines_tests.scorecards.calls_profile import DAY, build
from evaluation_pipelines_tests.service.answers import A1, B1, SAME, answering, work
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW

ACME = (("acme", A1), ("acme", SAME))
EVERYTHING = (*ACME, ("beta", B1), ("beta", SAME))
HIDDEN = ("90", "0.9", "tool_count 0", "model-a")
"""The automatic score of every session, and the model, in any spelling."""


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Service]:
    """Four sessions wait for a review: two of acme, two of beta, all with the score 90."""
    with answering(tmp_path) as service:
        ask(service, *EVERYTHING)
        yield service


def ask(service: Service, *keys: tuple[str, str]) -> None:
    """Put sessions into the audit sample."""
    samples = [AuditSample(DAY, owner, key, "calls", "0", NOW) for owner, key in keys]
    OverrideStore(service.workplace.ledger).add_samples(samples)


def send(client: TestClient, url: str, **fields: str) -> Any:
    """Send a form of the reviews page; return the page that follows."""
    found = re.search(r'form_token" value="(\w+)"', client.get("/sessions/none").text) or re.search(
        r'form_token" value="(\w+)"', client.get("/reviews").text
    )
    assert found
    return client.post(url, data={"form_token": found[1], **fields})


def page_of(session: str, owner: str | None = None, reviewer: str | None = None) -> str:
    query = "&".join(
        f"{name}={value}" for name, value in (("of", owner), ("reviewer", reviewer)) if value
    )
    return f"/reviews/{quote(session, safe='')}{f'?{query}' if query else ''}"


def answers(service: Service) -> list[tuple[Any, ...]]:
    rows = OverrideStore(service.workplace.ledger).of_dates()
    return rows.select("session_key", "override_score", "annotator", "source", "reason").rows()


def said(page: Any) -> str:
    """Return the texts of a page on one line."""
    return " ".join(re.sub(r"<[^>]*>", " ", page.text).split())


def test_a_round_goes_through_all_that_waits_and_stores_what_the_command_stores(
    asked: Service,
) -> None:
    client = asked.browser(asked.key(Role.REVIEWER, "acme"))
    assert "2 sessions to review" in said(client.get("/reviews"))

    first = send(client, "/reviews", do="begin")
    assert first.url.path == f"/reviews/{A1}"
    for shown in ("0 of 2 answered", "Read the plan", "cat secret-plan.txt", "Tool count, 100%"):
        assert shown in said(first)
    after = send(client, str(first.url), do="answer", score=" 40 ")
    assert after.url == first.url
    assert "90.0, 50.0 above yours" in said(after)
    assert "model-a" in after.text
    second = send(client, str(after.url), do="explain", reason="too kind", criterion="tool_count")
    assert second.url.path == f"/reviews/{SAME}"
    assert "1 of 2 answered" in said(second)
    done = send(client, str(send(client, str(second.url), do="answer", score="90").url),
                do="explain")  # fmt: skip
    assert done.url.path == "/reviews"
    assert "2 of 2 answered" in said(done)

    by_command = AuditReview(asked.workplace.stores, "Bo")
    by_command.begin(NOW)
    sample = by_command.sample(("beta", B1))
    assert sample
    target = by_command.target(sample)
    given = by_command.answer(target, 40, NOW)
    by_command.explain(given, target, "too kind", "tool_count", NOW)

    same = ("profile_id", "profile_version", "override_score", "automatic_100", "source",
            "reason", "criterion_id", "is_confirmation", "state", "session_date")  # fmt: skip
    found = overrides_with_states(asked.workplace.stores)
    by_page, by_terminal = (found.filter(session_key=key).select(same).rows() for key in (A1, B1))
    assert by_page == by_terminal
    assert answers(asked)[1] == (SAME, 90.0, "reviewer-acme", "audit", NO_REASON)
    samples = OverrideStore(asked.workplace.ledger).samples()
    assert [audit_sample.override_id for audit_sample in samples] == [1, 2, 3, None]


@pytest.mark.parametrize("role", [None, Role.REVIEWER])
def test_rows_of_the_queue_lead_to_their_review(asked: Service, role: Role | None) -> None:
    client = asked.browser(asked.key(role, "acme") if role else None)
    rows = client.get("/reviews").text.partition('id="waiting"')[2]
    url = html.unescape(re.findall(r'<td class="time wide"><a href="([^"]*)"', rows)[0])
    assert url == page_of(A1, None if role else "acme")
    page = client.get(url)
    if role is None:  # without keys, reviewers say who they are before they see anything
        assert "Your name" in said(page)
        assert "Read the plan" not in said(page)
        page = client.get(f"{url}&reviewer=Ada")
    assert "Your score" in said(page)
    reader = asked.browser(asked.key(Role.READER, "acme")).get("/reviews").text
    assert 'href="/reviews/' not in reader


def test_nothing_names_the_automatic_score_before_the_answer(asked: Service) -> None:
    client = asked.browser(asked.key(Role.REVIEWER, "acme"))
    pages = [client.get("/reviews"), send(client, "/reviews", do="begin")]
    url = str(pages[-1].url)
    pages += [
        client.get(f"{url}?whole=1"),
        send(client, url, do="answer", score="high"),
        send(client, url, do="answer", score="101"),
        send(client, url, do="explain", reason="x"),
        send(client, url, do="skip"),
    ]
    assert [page.status_code for page in pages] == [200, 200, 200, 400, 400, 404, 200]
    for page in pages:
        everything = [page, *page.history]
        texts = [row.text for row in everything] + [f"{row.headers}" for row in everything]
        for text in texts:
            for hidden in HIDDEN:
                assert not re.search(rf"(?<![\w.:-]){re.escape(hidden)}(?![\w:-])", text), hidden
    assert answers(asked) == []
    assert "90.0, 50.0 above yours" in said(send(client, url, do="answer", score="40"))


def views_of(session: str) -> list[str]:
    path = f"/sessions/{quote(session, safe='')}"
    return [path, f"{path}/technical", f"{path}/score"]


def test_the_page_of_a_session_shows_nothing_to_who_may_review_it(asked: Service) -> None:
    client = asked.browser(asked.key(Role.REVIEWER, "acme"))
    for view in views_of(A1):
        page = client.get(view)
        assert f'href="{page_of(A1)}"' in page.text
        for hidden in HIDDEN:
            assert hidden not in said(page)
    reader = asked.browser(asked.key(Role.READER, "acme"))
    assert "90.0" in said(reader.get(views_of(A1)[2]))  # and may not review
    send(client, page_of(A1), do="answer", score="40")
    assert "90.0" in said(client.get(views_of(A1)[2]))
    assert all("model-a" in said(client.get(view)) for view in views_of(A1))
    assert "model-a" in client.get("/sessions/a2%23baseline-1").text  # was not drawn


@pytest.mark.parametrize("name", [None, "Ada"])
def test_who_looks_at_a_score_is_not_asked_for_a_review(asked: Service, name: str | None) -> None:
    key = None if name else asked.key(Role.REVIEWER, "acme")
    client, reviewer = asked.browser(key), {"reviewer": name} if name else {}
    seen = send(client, f"{views_of(A1)[0]}/look")
    assert seen.url.path == f"/sessions/{A1}/score"
    assert "90.0" in said(seen)
    assert "left to others" in said(client.get(page_of(A1, "acme", name)))
    # List, queue and counts agree on what is left.
    left = client.get("/sessions?score=waiting").text.count('<tr><td class="time')
    assert left == (3 if name else 1)
    to_review = f"{left} session{'' if left == 1 else 's'} to review"
    assert to_review in said(client.get("/reviews"))
    assert f"{to_review} blind" in said(client.get("/"))
    assert A1 not in client.get("/reviews").text
    assert send(client, "/reviews", do="begin", **reviewer).url.path == f"/reviews/{SAME}"
    assert answers(asked) == []
    other = asked.key(Role.OPERATOR, "acme")
    assert "Your score" in said(asked.browser(other).get(page_of(A1)))


def test_another_reviewer_gets_other_sessions_and_a_late_answer_is_an_override(
    asked: Service,
) -> None:
    client = asked.browser()  # without keys reviewers say who they are
    first = send(client, "/reviews", do="begin", reviewer="Ada")
    other = send(client, "/reviews", do="begin", reviewer="Bo")
    assert (first.url.path, other.url.path) == (f"/reviews/{A1}", f"/reviews/{SAME}")
    send(client, str(first.url), do="answer", score="40", reviewer="Ada")
    late = page_of(A1, "acme", "Bo")
    assert "Another reviewer answered first" in said(client.get(late))
    assert "90" not in said(client.get(late))
    assert "saved as an override" in said(
        send(client, late, do="answer", score="60", reviewer="Bo")
    )
    assert answers(asked) == [
        (A1, 40, "Ada", "audit", NO_REASON),
        (A1, 60, "Bo", "person", NO_REASON),
    ]
    refused = send(client, "/reviews", do="begin", reviewer=" ")
    assert refused.status_code == 400
    assert "annotator is empty" in refused.text


def test_an_answer_is_taken_back_once_and_asked_of_others(asked: Service) -> None:
    client = asked.browser()
    url = str(send(client, "/reviews", do="begin", reviewer="Ada").url)
    for score in ("4", "40"):  # sent twice: the first counts
        send(client, url, do="answer", score=score, reviewer="Ada")
    assert [row[1] for row in answers(asked)] == [4]
    assert "1 of 4 answered" in said(client.get("/reviews?reviewer=Ada"))
    stranger = send(client, "/reviews", do="undo", answer="1", reviewer="Bo")
    assert "Your answer was undone" not in stranger.text
    for _ in range(2):
        undone = send(client, "/reviews", do="undo", answer="1", reviewer="Ada")
        assert answers(asked) == []
    assert "left to others" in said(undone)
    assert "left to others" in said(client.get(url))
    send(client, url, do="answer", score="50", reviewer="Ada")
    assert answers(asked) == []
    assert "Your score" in said(client.get(page_of(A1, "acme", "Bo")))


def test_skipped_sessions_come_again_in_the_next_round(asked: Service) -> None:
    client = asked.browser(asked.key(Role.REVIEWER, "acme"))
    first = send(client, "/reviews", do="begin")
    second = send(client, str(first.url), do="skip")
    queue = send(client, str(second.url), do="skip")
    assert queue.url.path == "/reviews"
    assert "0 of 2 answered, 2 skipped" in said(queue)
    assert send(client, "/reviews", do="resume").url == first.url


def test_who_may_review_what(asked: Service) -> None:
    reader = asked.browser(asked.key(Role.READER, "acme"))
    told = said(reader.get("/reviews"))
    assert "2 sessions to review. Reviewing requires a reviewer key." in told
    assert B1 not in told
    for answer in (
        reader.get(page_of(A1)),
        reader.post("/reviews"),
        reader.post(page_of(A1), data={"do": "answer", "score": "1"}),
    ):
        assert answer.status_code == 403
        assert "Read the plan" not in answer.text
    acme = asked.browser(asked.key(Role.REVIEWER, "acme"))
    for session, owner in ((B1, None), (B1, "beta")):
        assert acme.get(page_of(session, owner)).status_code == 404
        assert send(acme, page_of(session, owner), do="answer", score="1").status_code == 404
    assert (
        acme.post(page_of(A1), data={"do": "answer", "score": "1"}).status_code == 403
    )  # no token
    everything = asked.browser(asked.key(Role.REVIEWER))
    assert "4 sessions to review" in said(everything.get("/reviews"))
    assert everything.get(page_of(SAME)).status_code == 404  # of which organization?
    assert "Your score" in said(everything.get(page_of(SAME, "beta")))
    assert answers(asked) == []


@pytest.mark.parametrize(
    ("session", "do"), [("none", "skip"), ("none", "answer"), (A1, "nothing"), (A1, "explain")]
)
def test_a_step_in_a_review_that_is_not_there_writes_nothing(
    asked: Service, session: str, do: str
) -> None:
    client = asked.browser(asked.key(Role.REVIEWER, "acme"))
    assert send(client, page_of(session), do=do, score="1").status_code == 404
    with reading(asked.workplace.ledger.engine) as connection:
        assert connection.execute(sa.select(AUDIT_STEPS)).all() == []


@pytest.mark.parametrize("number", ["0" * 5000, "9" * 5000, "9" * 20, "-1", "²", ""])
def test_what_is_no_number_of_an_answer_takes_nothing_back(asked: Service, number: str) -> None:
    client = asked.browser(asked.key(Role.REVIEWER, "acme"))
    assert send(client, page_of(A1), do="answer", score="40").status_code == 200
    queue = send(client, "/reviews", do="undo", answer=number)
    assert (queue.status_code, len(answers(asked))) == (200, 1)


def test_a_score_of_a_session_that_went_on_waits_for_a_person(asked: Service) -> None:
    client = asked.browser()
    page = "/sessions/a2%23baseline-1"
    correction = {"score": "20", "annotator": "Ada", "reason": "wrong"}
    assert send(client, f"{page}/override", **correction).status_code == 200
    assert "Outdated human scores" not in said(client.get("/reviews"))
    asked.workplace.land("more.jsonl", work("acme", "a2", 86_400 + 100))
    build(asked.workplace)
    waits = client.get("/reviews").text
    assert re.search(
        r"Outdated human scores: 1.*a2%23baseline-1/score.*#overrides.*Ada", waits, re.DOTALL
    )
    ask(asked, ("acme", "a2#baseline-1"))  # a blind review comes first
    assert "Outdated human scores" not in said(client.get("/reviews"))


def test_what_can_no_longer_be_reviewed_stops_no_round(asked: Service) -> None:
    ask(asked, ("acme", "a0#baseline-1"))  # its session was never there
    client = asked.browser(asked.key(Role.REVIEWER, "acme"))
    assert "a0#baseline-1 no longer reviewable" in said(client.get("/reviews"))
    assert send(client, "/reviews", do="begin").url.path == f"/reviews/{A1}"
    assert client.get(page_of("a0#baseline-1")).status_code == 404
