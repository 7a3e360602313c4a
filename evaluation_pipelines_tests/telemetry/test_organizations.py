"""Records that name no organization are of the organization that their session names."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.schemas import AGENT_EVENTS, EVALUATION_BOOKS
from evaluation_pipelines.telemetry.event_texts import prompts_with
from evaluation_pipelines_tests.erasure.two_people import found
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line
from evaluation_pipelines_tests.world.lake_files import root_of

REPORTED = Path(__file__).parent.parent / "data" / "reported"
SESSION = "11111111-2222-4333-8444-555555555555"


def reported(name: str) -> list[dict[str, Any]]:
    """Return the sessions that a case of ``data/reported`` must give."""
    expected = json.loads((REPORTED / f"{name}.expected.json").read_text())
    return list(expected["sessions"])


def test_a_session_that_names_its_organization_late_is_one(workplace: Workplace) -> None:
    name = "cc-organization-late"
    workplace.land("logs.jsonl", (REPORTED / f"{name}.jsonl").read_bytes())
    workplace.ingest()
    workplace.build()
    sessions = workplace.sessions()
    for expected in reported(name):
        session = sessions.filter(session_id=expected["session_id"])
        assert session.height == expected.pop("_windows")
        assert session.select(expected.keys()).to_dicts() == [expected]
    assert set(sessions["organization_id"]) == {"0f4c9f6e-1111-4222-8333-944444444444"}


def of(organization: str | None, day: int, session: str) -> bytes:
    """Return a line with a prompt and a call, some days after the first of June."""
    given = {} if organization is None else {"organization__id": organization}
    prompt = claude("user_prompt", day * DAY_S, session__id=session)
    call = claude(
        "tool_result", day * DAY_S + 1, session__id=session, tool_name="Read", success="true"
    )
    return line(prompt, call, **given)


@pytest.mark.parametrize(
    ("session", "sent", "windows"),
    [
        # Each line is a prompt and a call.
        (SESSION, (None, "acme"), {"acme": 2}),
        (SESSION, (None, "acme", "beta"), {"default": 1, "acme": 1, "beta": 1}),
        ("42", (None, "acme"), {"default": 1, "acme": 1}),
    ],
)
def test_the_order_of_arrival_makes_no_difference(
    tmp_path: Path, session: str, sent: tuple[str | None, ...], windows: dict[str, int]
) -> None:
    lines = [of(organization, day, session) for day, organization in enumerate(sent)]
    whole = (b"".join(lines),)
    for number, order in enumerate((whole, lines, lines[::-1])):
        with open_workplace(tmp_path / f"{number}") as workplace:
            for part, content in enumerate(order):
                workplace.land(f"{part}.jsonl", content)
                workplace.ingest()
                if part in {0, len(order) - 1}:
                    workplace.build()
            windows_of = workplace.sessions().select("organization_id", "prompts", "total_tools")
            assert sorted(windows_of.rows()) == sorted((org, n, n) for org, n in windows.items())


def test_all_of_a_session_id_is_in_the_partition_of_its_first_event(workplace: Workplace) -> None:
    for day, organization in enumerate((None, "acme", "beta")):
        workplace.land(f"{day}.jsonl", of(organization, day, SESSION))
        workplace.ingest()
    assert set(workplace.landed()["session_date"]) == {date(2026, 6, 1)}


@pytest.mark.parametrize(
    "subject", [Subject("organization", "acme"), Subject("person", "ada@x"), Subject("user", "u1")]
)
def test_forgetting_a_session_forgets_what_it_sent_before_sign_in(
    workplace: Workplace, subject: Subject
) -> None:
    early = line(claude("user_prompt", session__id=SESSION, prompt="before sign-in"))
    named = {"organization.id": "acme", "user.email": "ada@x", "enduser.id": "u1"}
    late = line(claude("user_prompt", 60, session__id=SESSION, **named))
    other = line(claude("user_prompt", session__id="other", organization__id="beta"))
    workplace.land("logs.jsonl", early + late + other)
    workplace.ingest()
    workplace.build()
    forget = Forget(workplace.stores, "root", rewrite_landing=True, clock=lambda: NOW)
    assert forget.run(subject).selection.named_sessions.rows() == [("acme", SESSION)]
    # Nothing of it comes back, whether it names its organization or not.
    workplace.land("again.jsonl", early + late)
    assert workplace.ingest().counts.forgotten == 2
    workplace.build()
    assert workplace.sessions()["session_id"].to_list() == ["other"]
    assert SESSION.encode() not in (workplace.landing.root / "logs.jsonl").read_bytes()
    assert found(root_of(workplace.lake), SESSION, "before sign-in") == {}
    assert workplace.landed()["session_id"].to_list() == ["other"]


def test_an_event_of_two_organizations_is_one_of_each(workplace: Workplace) -> None:
    """What names them is equal: in one line, and in several."""

    def sent(organization: str, said: str) -> list[dict[str, Any]]:
        known: dict[str, Any] = {"session__id": SESSION, "organization__id": organization}
        return [
            claude("user_prompt", event__sequence=1, prompt=said, **known),
            claude("tool_result", 1, event__sequence=2, tool_name="Read", success="true", **known),
        ]

    acme, beta = sent("acme", "of acme"), sent("beta", "of beta")
    workplace.land("logs.jsonl", line(*acme, *beta))
    workplace.land("again.jsonl", line(*beta) + line(*acme))
    workplace.ingest()
    workplace.build()
    sessions = workplace.sessions().select("organization_id", "prompts", "total_tools")
    assert sorted(sessions.rows()) == [("acme", 1, 1), ("beta", 1, 1)]
    events = workplace.events()
    assert events["event_id"].n_unique() == 2
    prompts = events.filter(event_name="user_prompt").select("organization_id", "content")
    assert sorted(prompts.rows()) == [("acme", "of acme"), ("beta", "of beta")]
    (day,) = workplace.lake.partitions(AGENT_EVENTS)
    assert prompts_with(workplace.lake, day, "of beta")["organization_id"].to_list() == ["beta"]
    booked = workplace.lake.read(EVALUATION_BOOKS, [day])
    assert booked.height == 2
    forget = Forget(workplace.stores, "root", rewrite_landing=True, clock=lambda: NOW)
    forget.run(Subject("organization", "acme"))
    workplace.build()
    left = workplace.events().select("organization_id", "content")
    assert sorted(left.rows(), key=str) == [("beta", "of beta"), ("beta", None)]
