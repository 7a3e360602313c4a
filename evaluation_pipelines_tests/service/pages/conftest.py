"""A service that is attacked by its telemetry, for all tests that only read its pages."""

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from evaluation_pipelines_tests.service.pages.hostile import (
    KEY,
    hostile_service,
    payload,
    score,
)
from evaluation_pipelines_tests.service.scoring_service import ScoringService


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScoringService]:
    """Of a hostile session one scoring failed, one did not, and a person corrected it."""
    with hostile_service(tmp_path_factory.mktemp("hostile")) as service:
        score(service, 1)
        score(service, 2)
        client = service.client()
        path = f"/sessions/{quote(KEY, safe='')}"
        token = re.search(r'form_token" value="(\w+)"', client.get(f"{path}/score").text)
        assert token
        person = {
            "form_token": token[1],
            "annotator": payload("annotator"),
            "reason": payload("why"),
        }
        answer = client.post(f"{path}/override", data={**person, "score": "41.5"})
        assert answer.status_code == 200, answer.text
        yield service
