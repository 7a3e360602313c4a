"""EVAL_PSEUDONYMIZE: no person is named in what is stored."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation_pipelines.erasure.domain.subject import Subject, SubjectKind
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.erasure.selection import select
from evaluation_pipelines.people.identity_store import sync_identities
from evaluation_pipelines.telemetry.domain.forgotten import Pseudonyms
from evaluation_pipelines.telemetry.forgotten_events import pseudonyms_of
from evaluation_pipelines_tests.erasure.two_people import EMAIL, SESSION, USER, found
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S

HOST, LOGIN = "laptop-of-ada-17", "adas-login"
NAMES = (EMAIL, USER, HOST, LOGIN, "Ada Ash")
IDENTITIES = f"""\
people:
  ada:
    name: Ada Ash
    team: search
    ids:
      - email: {EMAIL}
"""


def of_ada(name: str = SESSION, second: float = 0, email: str = EMAIL) -> bytes:
    return session_with_texts(
        name, second, user__email=email, enduser__id=USER, host__name=HOST, process__owner=LOGIN
    )


def pseudonyms(workplace: Workplace) -> Pseudonyms:
    made = pseudonyms_of(workplace.settings)
    assert made is not None
    return made


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    with open_workplace(tmp_path, pseudonymize=True) as opened:
        opened.settings.identities_path.write_text(IDENTITIES)
        opened.land("logs.jsonl", of_ada() + of_ada("second", DAY_S, EMAIL.upper()) + b"{oops\n")
        opened.ingest()
        sync_identities(opened.stores, NOW)
        opened.build()
        yield opened


def test_no_name_is_stored_and_sessions_of_one_person_stay_together(workplace: Workplace) -> None:
    root = workplace.landing.root.parent
    files = found(root, *NAMES)
    assert {path.partition("/")[0] for path in files} == {"landing", "identities.yaml"}
    sessions = workplace.sessions()
    ada = pseudonyms(workplace).of("ada")
    assert ada.startswith("p-")
    assert sessions["person_id"].to_list() == [ada, ada]
    assert sessions["team"].to_list() == ["search", "search"]
    assert sessions["user_email"].unique().to_list() == [pseudonyms(workplace).of(EMAIL)]
    assert sessions["host_user"].unique().to_list() == [pseudonyms(workplace).of(LOGIN)]
    attributes = workplace.events()["attributes"].drop_nulls()
    assert f'"host.name":"{pseudonyms(workplace).of(HOST)}"' in attributes.str.join("\n").item()


def test_the_key_is_private_and_another_one_gives_other_pseudonyms(workplace: Workplace) -> None:
    key = workplace.settings.pseudonym_key_path
    assert key.stat().st_mode & 0o777 == 0o600
    before = pseudonyms(workplace).of(EMAIL)
    assert pseudonyms(workplace).of(before) == before
    key.unlink()
    assert pseudonyms(workplace).of(EMAIL) != before


def test_a_person_is_forgotten_by_the_name_or_the_pseudonym(workplace: Workplace) -> None:
    by_pseudonym = Subject("person", pseudonyms(workplace).of("ada"))
    forgot = Forget(workplace.stores, "root", rewrite_landing=True, clock=lambda: NOW).run(
        by_pseudonym
    )
    assert forgot.selection.named_sessions.height == 2
    assert forgot.identities_are_clean
    assert found(workplace.landing.root.parent, SESSION) == {}
    workplace.land("again.jsonl", of_ada("another", 2 * DAY_S))
    assert workplace.ingest().counts.forgotten == 4


@pytest.mark.parametrize("kind", ["user", "person"])
def test_pseudonyms_are_found_by_the_id_after_they_were_switched_off(
    workplace: Workplace, kind: SubjectKind
) -> None:
    now = replace(
        workplace.stores, settings=workplace.settings.model_copy(update={"pseudonymize": False})
    )
    value = EMAIL if kind == "user" else "ada"
    assert select(now, Subject(kind, value)).named_sessions.height == 2


def test_sessions_of_before_the_pseudonyms_are_of_the_person_as_well(tmp_path: Path) -> None:
    with open_workplace(tmp_path) as before:
        before.land("logs.jsonl", of_ada())
        before.ingest()
        before.build()
    with open_workplace(tmp_path, pseudonymize=True) as workplace:
        workplace.settings.identities_path.write_text(IDENTITIES)
        sync_identities(workplace.stores, NOW)
        workplace.land("later.jsonl", of_ada("second", DAY_S))
        workplace.ingest()
        for subject in (
            Subject("person", "ada"),
            Subject("person", pseudonyms(workplace).of("ada")),
            Subject("user", EMAIL),
            Subject("user", pseudonyms(workplace).of(EMAIL)),
        ):
            assert select(workplace.stores, subject).named_sessions.height == 2


def test_the_option_takes_the_name_and_reports_show_the_pseudonym(program: Program) -> None:
    program.set("EVAL_PSEUDONYMIZE", "true")
    program.set("EVAL_PEOPLE_VIEW", "person")
    program.land("logs.jsonl", of_ada())
    program("ingest")
    program("build")
    for person in (EMAIL, EMAIL.upper()):
        ran = program("sessions", "--person", person, "--format", "csv")
        assert SESSION in ran.out
        assert not [name for name in NAMES if name in ran.out]
        assert "p-" in ran.out
