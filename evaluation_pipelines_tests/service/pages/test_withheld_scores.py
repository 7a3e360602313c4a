"""No list, file, answer or event tells a reviewer the scores of a session that waits for a review.

Keys of the role reader cannot review and see them: the same walk with one finds what it looks for.
"""

import csv
import json
import logging
import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.checks import check_quality_risks
from evaluation_pipelines.attention.domain.messages import quality_risk_alert
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.reputation.domain.signals import identity_id
from evaluation_pipelines.schemas import (
    AGENT_SCORES,
    AGENT_SESSIONS,
    REPUTATION_SCORES,
    SESSION_PERFORMANCE,
)
from evaluation_pipelines.schemas.scorecards import Announcement
from evaluation_pipelines.scorecards.domain.evaluation import QUALITY_RISK
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.store import AuditSample, EventStore, OverrideStore
from evaluation_pipelines.service.events import visible_text
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines_tests.judging.ledger.score_builders import DONE, begun
from evaluation_pipelines_tests.scorecards.calls_profile import DAY, build, profile_file
from evaluation_pipelines_tests.service.answers import A1, C1, SAME, path_of, work
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.examples import EXAMPLES
from evaluation_pipelines_tests.service.pages.agent_evaluations import export_agents
from evaluation_pipelines_tests.service.pages.test_every_page import PAGES
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world.ledger import NOON

PERSON, JUDGE = 37.25, 43
THEN = datetime(2026, 6, 2, 12, tzinfo=UTC)
CARD = "63.6"  # 100 * (1 - 4 calls / 11)
OTHERS = ("a2", "a3", "same")
"""They have one call, so that their cards say 90.9."""

LISTS = (
    *("/sessions?sort=score", "/sessions?sort=-judge", "/sessions?sort=composite"),
    *("/sessions.csv?sort=score", "/trends?from=2026-06-01&to=2026-06-02&by=model"),
    "/operations/books/2026-06-01?state=scored",
    *("/api/v1/sessions", "/api/v1/scorecards?limit=50"),
    *(f"/api/v1/sessions/{path_of(A1)}", f"/api/v1/scoring/sessions/{path_of(A1)}/score"),
    *("/api/v1/books/2026-06-01", f"/api/v1/tools/{path_of(A1)}"),
)
"""In addition to an example of each route."""

FILTERS = ("score=red", "score=yellow", "score=unscored", "judge=red", "judge=unscored",
           "source=override", "recommendation=keep", "recommendation=review")  # fmt: skip


def session(name: str, second: float, calls: int, owner: str = "acme") -> bytes:
    agent = "scout" if owner == "acme" else "other"
    model = f"model-{name}"
    return work(owner, name, second, calls=calls, agent=agent, model=model, tool_parameters=None)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """a1 of acme waits for a review: its card, a judge and a person scored it, each otherwise."""
    judge = {"judge_model": "judge-1", "openai_base_url": "http://127.0.0.1:9/v1"}
    often = {"service_requests_per_second": 1000}
    with open_workplace(tmp_path_factory.mktemp("asked"), **judge, **often) as workplace:
        profile_file(workplace, worst=11)
        works = [session("a1", 0, 4), session("b1", 60, 2, "beta"), session("c1", 90, 2)]
        works += [session(name, 120 + 60 * place, 1) for place, name in enumerate(OTHERS)]
        workplace.land("logs.jsonl", b"".join(works))
        build(workplace)
        service = Service(workplace)
        mine = workplace.lake.read(AGENT_SESSIONS, [DAY]).filter(session_key=A1)
        content = mine["content_hash"].item()
        scores = ScoreStore(workplace.ledger)
        scored = begun(A1, content_hash=content, session_date=DAY)
        score_id = scores.create(scored, NOON).score_id
        found = DONE | {
            "total_score": JUDGE,
            "sample_totals": [JUDGE],
            "score_analysis": "so 43",
        }
        # At the time of the build: lists in the order of the judge look its badge up.
        scores.complete(score_id, found, NOW)
        said = {"score": PERSON, "annotator": "Ann", "reason": "the plan was not found"}
        path = f"/api/v1/sessions/{path_of(A1)}/override"
        assert service.client().post(path, json=said).status_code == 200
        build(workplace)
        export_agents(workplace)
        export_reputation(workplace)
        assert check_quality_risks(workplace.stores, THEN, logging.getLogger("checks")) == 1
        OverrideStore(workplace.ledger).add_samples(
            [AuditSample(DAY, "acme", A1, "calls", content, NOW)]
        )
        yield service


def export_reputation(workplace: Workplace) -> None:
    """Write a reputation of scout, whose session a1 is, and its score 30 days ago."""
    who = {"identity_id": f"{identity_id('acme', 'scout')}", "computed_at": NOW}
    counts = {"total_events": 5, "positive_events": 4, "negative_events": 871}
    scores = {
        name: 0.713 for name, dtype in REPUTATION_SCORES.schema.items() if dtype == pl.Float64
    }
    row = {**scores, **who, **counts, "categories_observed": ["task_quality"]}
    workplace.lake.write(pl.DataFrame([row], REPUTATION_SCORES.schema), REPUTATION_SCORES, None)
    agents = workplace.lake.read_whole(AGENT_SCORES)
    earlier = pl.when(organization_id="acme", agent_id="scout").then(619).alias("score_30d_ago")
    workplace.lake.write(
        agents.with_columns(earlier.cast(pl.Int64)).select(AGENT_SCORES.schema.names()),
        AGENT_SCORES,
        None,
    )


@pytest.fixture(scope="module")
def secrets(asked: Service) -> re.Pattern[str]:
    """The scores of the session in any spelling."""
    rows = asked.workplace.lake.read(SESSION_PERFORMANCE, [DAY])
    composites = dict(rows.select("session_key", "composite").rows())
    composite = composites.pop(A1)
    assert round(composite, 1) not in {round(composite, 1) for composite in composites.values()}
    shown = re.escape(f"{composite:.1f}")
    spelled = ("37.25", "37.2", "37.3", "37", "43", f"{CARD}\\d*", f"{shown}\\d*", "so 43",
               "0.713", "0.71", "871", "619")  # fmt: skip
    public = 'tool_count_best":'  # the limit of efficiency-simple is 8.0, as is the composite
    return re.compile(rf"(?<![\w./-])(?<!\d:)(?<!{public})({'|'.join(spelled)})(?![\w:-])")


@pytest.fixture(scope="module")
def keys(asked: Service) -> dict[Role, str]:
    return {role: asked.key(role) for role in Role}


def urls() -> list[str]:
    """Return a URL of every route that reads, about the session that waits where it names one."""
    pages = [page.url.replace(path_of(SAME), f"{path_of(A1)}?of=acme") for page in PAGES]
    reads = [
        example.url for example in EXAMPLES if example.body is None and example.role is not None
    ]
    return [*pages, *(read.replace(path_of(C1), path_of(A1)) for read in reads), *LISTS]


def texts_of(client: TestClient, *, of_reader: bool = False) -> dict[str, str]:
    """Return what every route answers, and every channel."""
    found = {url: client.get(url, headers={"Accept": "text/html"}) for url in urls()}
    call = {"method": "evaluation.scorecards.query", "params": {"agentId": "scout"}}
    found["query"] = client.post("/api/v1/gateway", json=call)
    params = {"classificationLabel": "simple", "from": "2026-06-01T00:00:00Z"}
    params |= {"to": "2026-06-02T00:00:00Z"}
    call = {"method": "evaluation.model_comparison", "params": params}
    found["comparison"] = client.post("/api/v1/gateway", json=call)
    call = {"method": "evaluation.tool_report", "params": {"runId": A1}}
    found["tool report"] = client.post("/api/v1/gateway", json=call)
    allowed = {200, 403} if of_reader else {200}
    assert {name for name, answer in found.items() if answer.status_code not in allowed} == set()
    return {name: answer.text for name, answer in found.items()}


def test_the_scores_are_in_no_list_file_or_answer(
    asked: Service, keys: dict[Role, str], secrets: re.Pattern[str]
) -> None:
    told = texts_of(asked.client(keys[Role.OPERATOR]))
    assert {name: found[0] for name, text in told.items() if (found := secrets.search(text))} == {}
    open_to_readers = {
        name for name, text in texts_of(asked.client(keys[Role.READER]), of_reader=True).items()
        if secrets.search(text)
    }  # fmt: skip
    assert open_to_readers >= {*LISTS[:-1], "/sessions", "/sessions.csv", "query", "comparison",
                               "/agents", "/agents.csv", "/agents/scout",
                               "/operations/books.csv?day=2026-06-01"}  # fmt: skip


def test_no_mean_contains_it(asked: Service, keys: dict[Role, str]) -> None:
    # The score of one follows from the mean of a few and the scores of the others.
    url = "/trends.csv?from=2026-06-01&to=2026-06-01&agent=scout&organization=acme"
    found = {
        role: next(csv.DictReader(asked.client(keys[role]).get(url).text.splitlines()))
        for role in (Role.REVIEWER, Role.READER)
    }
    others = [100 * (1 - calls / 11) for calls in (1, 1, 1, 2)]
    assert [found[role]["scored"] for role in found] == ["5", "5"]
    assert [found[role]["review_due"] for role in found] == ["1", "0"]
    assert float(found[Role.REVIEWER]["quality"]) == pytest.approx(sum(others) / 4)
    assert float(found[Role.READER]["quality"]) == pytest.approx((sum(others) + PERSON) / 5)


def test_no_number_of_its_agent_contains_it(asked: Service, keys: dict[Role, str]) -> None:
    # Of scout's five sessions four passed, and a1, the first one, did not. The rate of two days,
    # the streak, or the points of a chart would tell.
    def counts(role: Role, points: int) -> list[tuple[int, float]]:
        client = asked.client(keys[role])
        record = client.get("/v1/reputation/scout?organization=acme").json()
        rows = [
            row
            for row in csv.DictReader(client.get("/agents.csv").text.splitlines())
            if (row["organization_id"], row["agent_id"]) == ("acme", "scout")
        ]
        stated = [(int(row["eval_count"]), float(row["pass_rate"])) for row in rows]
        table = pl.read_ipc_stream(client.get("/api/v1/tables/agents.arrow").content)
        table = table.filter(organization_id="acme", agent_id="scout")
        stated += table.select("eval_count", "pass_rate").rows()
        page = client.get("/agents/scout?organization=acme").text
        assert f"<strong>{record['progress']}</strong> evaluations" in page
        assert f'<td class="n">{points}</td><td class="n">400</td>' in page  # of the charts' window
        return [(record["eval_count"], record["pass_rate"]), *stated]

    assert counts(Role.REVIEWER, 400) == [(4, 1.0)] * 3
    assert counts(Role.READER, 320) == [(5, 0.8)] * 3


def test_no_agreement_with_people_contains_it(asked: Service, keys: dict[Role, str]) -> None:
    def sizes(role: Role) -> list[str]:
        table = asked.client(keys[role]).get("/operations/judge.csv").text
        return [row["n"] for row in csv.DictReader(table.splitlines())]

    assert sizes(Role.READER) == ["1"]  # Ann's score of a1
    assert sizes(Role.REVIEWER) == []


def test_the_reputation_of_its_agent_is_withheld(asked: Service, keys: dict[Role, str]) -> None:
    page = asked.client(keys[Role.REVIEWER]).get("/agents/scout?organization=acme").text
    assert "Hidden while a session of this agent awaits review. 5 signals in 90 days." in page
    assert (
        "Hidden while"
        not in asked.client(keys[Role.READER]).get("/agents/scout?organization=acme").text
    )


@pytest.mark.parametrize("asks", FILTERS)
def test_no_filter_by_a_score_finds_it(asked: Service, keys: dict[Role, str], asks: str) -> None:
    client = asked.client(keys[Role.REVIEWER])
    assert A1 not in client.get(f"/sessions.csv?{asks}").text
    assert path_of(A1) not in client.get(f"/sessions?{asks}").text
    assert A1 in client.get("/sessions.csv?score=waiting").text


def test_no_order_by_a_score_tells_where_it_stands(asked: Service, keys: dict[Role, str]) -> None:
    def keys_in(role: Role, order: str) -> list[str]:
        table = asked.client(keys[role]).get(f"/sessions.csv?sort={order}").text
        return [row["session_key"] for row in csv.DictReader(table.splitlines())]

    assert keys_in(Role.READER, "judge")[0] == A1  # no judge has scored another one
    assert keys_in(Role.REVIEWER, "judge") == keys_in(Role.REVIEWER, "-started")
    for order in ("score", "-score", "composite", "-composite"):
        assert keys_in(Role.REVIEWER, order)[-1] == A1


def test_the_list_leads_to_the_review(asked: Service, keys: dict[Role, str]) -> None:
    page = asked.client(keys[Role.REVIEWER]).get("/sessions?score=waiting").text
    url = f"/sessions/{path_of(A1)}/score"
    assert f'href="{url}?organization=acme">awaiting review<' in page


def test_who_has_looked_sees_the_scores(asked: Service, secrets: re.Pattern[str]) -> None:
    key = asked.key(Role.REVIEWER, "acme")  # a name of its own
    client = asked.client(key)
    assert not secrets.search(client.get("/sessions.csv").text)
    token = re.search(r'form_token" value="(\w+)"', client.get(f"/sessions/{path_of(A1)}").text)
    assert token
    client.post(f"/sessions/{path_of(A1)}/look", data={"form_token": token[1]})
    assert secrets.search(client.get("/sessions.csv").text)


def test_an_override_of_it_does_not_tell_what_it_corrects(
    asked: Service, keys: dict[Role, str]
) -> None:
    client = asked.client(keys[Role.OPERATOR])
    said: dict[str, Any] = {"annotator": "Ann", "reason": "as before"}
    url = f"/api/v1/sessions/{path_of(A1)}/override"
    confirmed = client.post(url, json={"score": None, **said}).json()
    assert (confirmed["override_score"], confirmed["automatic_score"]) == (None, None)
    call = {"method": "evaluation.scorecards.override",
            "params": {"runId": "a1", "overrideScore": PERSON, **said}}  # fmt: skip
    answer = client.post("/api/v1/gateway", json=call).json()
    assert answer["overallScore"] is None
    assert answer["humanOverride"]["overrideScore"] == PERSON


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.READER])
def test_events_do_not_tell_the_score(
    asked: Service, keys: dict[Role, str], secrets: re.Pattern[str], role: Role
) -> None:
    end = {"timestamp_us": 0, "organization_id": "acme", "session_key": A1, "phase": "last"}
    kinds = ("scoring.started", "evaluation.model_feedback", "alert.ended")
    payload = json.dumps({"kind": "stale", "cause": "x", "title": "x", "text": "x"})
    ServiceEvents(asked.workplace.ledger).append(
        [{"type": kind, "payload": payload, **end} for kind in kinds]
    )
    text = ""
    with asked.client(keys[role]) as client:
        for channel in ("sessions", f"session:{path_of(A1)}", "evaluations", "alerts"):
            url = f"ws://localhost:8400/api/v1/events?channel={channel}&after=0"
            with client.websocket_connect(url) as socket:
                message: dict[str, Any] = {}
                while message.get("phase") != "last":
                    message = socket.receive_json()
                    text += f"{message}\n"
    assert bool(secrets.search(text)) == (role is Role.READER)
    assert ("evaluation.quality_risk" in text) == (role is Role.READER)


def risks(asked: Service, *sessions: tuple[str, str]) -> None:
    """Raise an alert about sessions with a score of 10, as it is raised before their draw."""
    about = {"effective_100": 10, "effective_source": "scorecard", "model": "m"}
    about |= {"classification_label": "x"}
    events = [
        Announcement(f"{owner} {key}", QUALITY_RISK, DAY, owner, key, None, 10, json.dumps(
            {"session_key": key, **about}
        ))
        for owner, key in sessions
    ]  # fmt: skip
    store = EventStore(asked.workplace.ledger)
    store.record(DAY, events, NOW)
    last = store.of_kind(QUALITY_RISK, 0, DAY)[-1].position
    alert = quality_risk_alert(f"{last}", [json.loads(event.payload) for event in events])
    assert AlertStore(asked.workplace.ledger).put(alert, THEN)


def test_an_alert_neither_lists_nor_counts_it(asked: Service, keys: dict[Role, str]) -> None:
    others = [f"{A1}:1", *(f"s{number}" for number in range(4)), A1]  # the last one of beta
    places = [("acme", key) for key in others[:-1]]
    risks(asked, *places, ("acme", A1), ("beta", A1))  # a1 of acme and of beta: "and 2 more"

    ledger = asked.workplace.ledger
    *_, event = (event for event in ServiceEvents(ledger).after(0) if event.type == "alert.raised")

    def newest(role: Role, waiting: Collection[SessionKey] = ()) -> list[dict[str, str]]:
        listed = asked.client(keys[role]).get("/api/v1/alerts?limit=1").json()["alerts"][0]
        sent = json.loads(visible_text(ledger, event, waiting) or "")["payload"]
        return [{name: found[name] for name in ("title", "text")} for found in (listed, sent)]

    def alert(number: int) -> dict[str, str]:
        lines = [f"{key}: 10 of 100 (profile, model m, label x)" for key in others[:5]]
        lines += [f"and {number - 5} more", "Details: evaluation-pipelines show SESSION"]
        title = f"{number} sessions scored below their threshold"
        return {"title": title, "text": "\n".join(lines)}

    assert newest(Role.READER) == [alert(7)] * 2
    assert newest(Role.REVIEWER, {("acme", A1)}) == [alert(6)] * 2
