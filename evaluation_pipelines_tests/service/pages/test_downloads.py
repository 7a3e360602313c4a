"""Lists as CSV files: no text in one is a formula for a spreadsheet, and what is in them."""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl
import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.scorecards.store import (
    AuditSample,
    OverrideStore,
)
from evaluation_pipelines_tests.scorecards.calls_profile import DAY, build, profile_file
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.agent_evaluations import evaluate, export_agents
from evaluation_pipelines_tests.service.pages.test_every_page import PAGES
from evaluation_pipelines_tests.service.pages.test_review_lists import stale
from evaluation_pipelines_tests.workplace import NOW, open_workplace
from evaluation_pipelines_tests.world import claude, line

FORMULA = '=HYPERLINK("http://evil.example")'
FILES = [page.url for page in PAGES if page.route.endswith(".csv") and "judge" not in page.url]
"""All but that of agreement, whose only texts are ids of profiles, which are checked."""


def formulas(session: str) -> bytes:
    """Return a session with a formula in every field."""
    of = {
        "session__id": session,
        "organization__id": FORMULA,
        "classification__label": FORMULA,
        "agent__id": FORMULA,
        "team__id": FORMULA,
        "repository": FORMULA,
    }
    return line(
        claude("user_prompt", 0, prompt="Read the plan", **of),
        claude("tool_result", 1, tool_name=FORMULA, success="true", **of),
        claude("api_request", 2, model=FORMULA, input_tokens=1, output_tokens=2, cost_usd=-1, **of),
    )


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with open_workplace(tmp_path_factory.mktemp("downloads")) as workplace:
        profile_file(workplace)
        workplace.land(
            f"{FORMULA.replace('/', '')}.jsonl", formulas("-1+1") + formulas("-2+2") + b"{]\n"
        )
        build(workplace)
        export_agents(workplace)
        evaluate(workplace, FORMULA, FORMULA, 3)
        sample = AuditSample(DAY, FORMULA, "-1+1#baseline-1", "calls", "0", NOW)
        OverrideStore(workplace.ledger).add_samples([sample])
        old = replace(stale(FORMULA, "-2+2#baseline-1", FORMULA), reason=FORMULA)
        OverrideStore(workplace.ledger).add([old], NOW)
        yield Service(workplace).client()


@pytest.mark.parametrize("url", FILES)
def test_no_text_is_a_formula_for_a_spreadsheet(client: TestClient, url: str) -> None:
    answer = client.get(url.replace("agent=scout", "agent=" + FORMULA))
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    rows = pl.read_csv(answer.content, infer_schema=False)
    assert rows.height
    cells = [cell for row in rows.iter_rows() for cell in row if cell is not None]
    assert any(cell.startswith("'=HYPERLINK") for cell in cells)
    assert [cell for cell in cells if cell[0] in "=+@"] == []
    assert all(float(cell) < 0 for cell in cells if cell[0] == "-")
