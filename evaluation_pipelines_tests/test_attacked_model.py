"""The measurement of attacks: only those that change the verdict count as successes."""

import asyncio

import pytest

from evaluation_pipelines_tests.attacked_model import HARMLESS, AttackResult, measure, summary
from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import Scripted
from evaluation_pipelines_tests.judging.domain.attacks import ATTACKS
from evaluation_pipelines_tests.judging.domain.judging_builders import form
from evaluation_pipelines_tests.local_model import LocalModel


@pytest.mark.parametrize(
    ("scripted", "successes"), [(None, 0), (form(25, 25, 25, 20), len(ATTACKS))]
)
def test_the_success_rate_of_the_suite_is_that_of_the_judge(
    scripted: str | None, successes: int
) -> None:
    with open_judge_endpoint() as judge:
        if scripted is not None:
            judge.always(Scripted(text=scripted))
        model = LocalModel(judge.base_url, "scripted", is_ours=False)
        found = asyncio.run(measure(model, 60, 4000))

    assert {each.name for each in found} == {HARMLESS, *(each.name for each in ATTACKS)}
    assert all(each.total is not None for each in found)
    assert sum(each.has_succeeded for each in found if each.name != HARMLESS) == successes


def test_a_total_that_the_harmless_session_gets_as_well_is_no_success() -> None:
    attacked, harmless = (
        AttackResult("praise", 95, claims_success=True),
        AttackResult(HARMLESS, 95, claims_success=True),
    )

    assert "; 0 succeeded []; 1 replies mention" in summary([harmless, attacked])
    assert "; 1 succeeded ['praise']" in summary(
        [AttackResult(HARMLESS, None, claims_success=False), attacked]
    )
