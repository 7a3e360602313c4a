"""Requests made up from the OpenAPI document: answers are as documented, none is a failure."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.service import limits
from evaluation_pipelines_tests.service.answers import judging
from evaluation_pipelines_tests.service.clients import Service

pytestmark = pytest.mark.filterwarnings(
    # Threads of the service use `random` meanwhile, which is no part of the strategies.
    "ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning"
)

HOST = {"Host": "localhost:8400"}


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_WRONG_KEYS", 10**9)  # it tries many, and expects 401 for each
        with judging(tmp_path_factory.mktemp("service")) as service:
            yield service


@pytest.fixture(scope="module")
def headers(answered: Service) -> dict[str, str]:
    return {**HOST, "Authorization": f"Bearer {answered.key(Role.OPERATOR)}"}


def check_all(service: Service, headers: dict[str, str], requests: int) -> list[str]:
    """Send made-up requests to every route; return what was wrong."""
    # It takes a second to import, which every process that collects tests would spend.
    import schemathesis
    from schemathesis.core.failures import FailureGroup
    from schemathesis.core.result import Ok

    # What several fields say together, such as an empty time range, is refused, too.
    not_in_the_document = [schemathesis.checks.positive_data_acceptance]
    schema = schemathesis.openapi.from_asgi("/openapi.json", service.app, headers=HOST)
    faults = []
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()

        @settings(
            max_examples=requests,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def send(case: Any) -> None:
            case.call_and_validate(headers=headers, excluded_checks=not_in_the_document)

        try:
            send()
        except FailureGroup as error:
            faults += [f"{operation.label}: {exception!r}" for exception in error.exceptions]
    return faults


def test_answers_are_as_documented(answered: Service, headers: dict[str, str]) -> None:
    assert check_all(answered, headers, requests=3) == []


@pytest.mark.slow
def test_many_answers_are_as_documented(answered: Service, headers: dict[str, str]) -> None:
    assert check_all(answered, headers, requests=300) == []
