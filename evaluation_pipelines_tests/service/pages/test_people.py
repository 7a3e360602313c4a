"""Who sees single people: no key, or keys that read texts; a person always sees their own."""

import csv
from dataclasses import replace

import pytest

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.access.key_ring import create_key
from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import spending_alert
from evaluation_pipelines.people.identity_store import sync_identities
from evaluation_pipelines.service.caller import is_person
from evaluation_pipelines.settings.data import PeopleView
from evaluation_pipelines_tests.judged import fill
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.test_guard import PROXY, behind_proxy
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import session

BOB = "bobquill"
TITLE = f"person {BOB} spent $2.00 in 2026-12"


@pytest.mark.parametrize(
    ("view", "role", "sees_bob"),
    [
        ("off", Role.OPERATOR, False),
        ("team", Role.OPERATOR, False),
        ("person", Role.READER, False),
        ("person", Role.REVIEWER, True),
    ],
)
def test_single_people_are_shown_by_the_role_of_the_key_and_to_themselves(
    workplace: Workplace, view: PeopleView, role: Role, sees_bob: bool
) -> None:
    own = f"{role}-all"  # the name of the key
    fill(
        workplace,
        session("mine", user__email=own.upper(), team__id="oak"),
        session("other", 60, user__email=BOB, team__id="oak"),
    )
    spent = [{"session_key": "s", "model": "m", "cost_usd": 2.0, "unknown": 0}]
    AlertStore(workplace.ledger).put(spending_alert("2026-12", "person", [BOB], 1.0, spent), NOW)
    settings = workplace.settings.model_copy(update={"people_view": view})
    service = Service(replace(workplace, settings=settings))
    client = service.browser(service.key(role))

    listed = client.get("/sessions").text
    assert (BOB in listed) == sees_bob
    assert f'href="/sessions?person={own}">Mine</a>' in listed
    (row,) = csv.DictReader(client.get(f"/sessions.csv?person={own}").text.splitlines())
    assert row["session_key"] == "mine#baseline-1"
    assert (client.get(f"/sessions?person={BOB}").status_code == 200) == sees_bob
    assert f"<dd>{own}</dd>" in client.get("/sessions/mine").text
    for page in ("/sessions/other", "/api/v1/sessions/other", "/api/v1/sessions"):
        assert (BOB in client.get(page).text) == sees_bob, page
    by_team = client.get("/trends?by=team&step=all")
    assert (by_team.status_code == 200 and "oak" in by_team.text) == (view != "off")

    for page in ("/", "/operations/doctor", "/api/v1/alerts"):
        answer = client.get(page)
        assert (answer.status_code, TITLE in answer.text) == (200, sees_bob), page


def test_a_key_is_not_the_person_whose_id_differs_from_its_name_in_case(
    workplace: Workplace,
) -> None:
    fill(workplace, session("one", user__id="ci"), session("two", 60, user__id="CI"))
    service = Service(workplace)
    client = service.browser(create_key(workplace.ledger, "ci", Role.READER, None, now=NOW))
    assert "one#" in client.get("/sessions.csv?person=ci").text
    assert client.get("/sessions.csv?person=CI").status_code == 400


@pytest.mark.parametrize(
    ("of_sessions", "of_caller", "is_same"),
    [
        ("ci", "ci", True),
        ("CI", "ci", False),
        ("Ada@orchard.example", "ada@ORCHARD.example", True),
        ("ada@orchard.example", "ada@orchard.test", False),
        (None, "ada@orchard.example", False),
    ],
)
def test_only_addresses_are_the_same_in_another_case(
    of_sessions: str | None, of_caller: str, is_same: bool
) -> None:
    assert is_person(of_sessions, of_caller) is is_same


def test_a_user_of_a_proxy_is_the_person_who_has_the_email_by_the_identities(
    workplace: Workplace,
) -> None:
    known = "people:\n  ada:\n    name: Ada Ash\n    ids: [{email: Ada@orchard.example}]\n"
    workplace.settings.identities_path.write_text(known)
    sync_identities(workplace.stores, NOW)
    fill(workplace, session("mine", user__email="ada@orchard.example"), session("other", 60))
    service = behind_proxy(workplace)
    client = service.client(service.key(Role.READER), PROXY)
    client.headers.update({"Accept": "text/html", "Host": "eval.example"})
    client.headers["X-Forwarded-User"] = "ADA@orchard.example"
    assert 'href="/sessions?person=ada">Mine</a>' in client.get("/sessions").text
    assert "mine#" in client.get("/sessions.csv?person=ada").text
    client.headers["X-Forwarded-User"] = "ben@orchard.example"
    assert ">Mine<" not in client.get("/sessions").text
