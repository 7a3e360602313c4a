"""Forgetting in all stores together."""

from pathlib import Path

from evaluation_pipelines.erasure.domain.subject import Subject, SubjectKind
from evaluation_pipelines.erasure.forget import Forget, Forgot
from evaluation_pipelines_tests.erasure.two_people import (
    EMAIL,
    TRACES,
    fill_fresh,
    found,
    two_people,
)
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace


def forget(workplace: Workplace, kind: SubjectKind, value: str, *, rewrite: bool = False) -> Forgot:
    return Forget(workplace.stores, "root", rewrite, lambda: NOW).run(Subject(kind, value))


def test_nothing_of_a_person_is_left_and_the_others_stay(tmp_path: Path) -> None:
    with open_workplace(tmp_path) as workplace:
        fill_fresh(workplace, two_people())
        before = found(tmp_path)
        assert {path.partition("/")[0] for path in before} == {"landing", "lake", "ledger.db-wal"}
        assert {each for names in before.values() for each in names} == {*TRACES}

        forget(workplace, "person", EMAIL)

        assert {path.partition("/")[0] for path in found(tmp_path)} == {"landing"}
        forget(workplace, "person", EMAIL, rewrite=True)
        assert found(tmp_path) == {}
        assert workplace.sessions()["session_id"].to_list() == ["sess-of-ben"]
        assert not workplace.ingest().counts.lines
