"""The measurement of attacks: none wins the scripted judge over, and one that is won is counted."""

import asyncio

import pytest

from evaluation_pipelines_tests.attacked_model import HARMLESS, Shown, measured, told
from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import Scripted
from evaluation_pipelines_tests.judging.domain.attacks import ATTACKS
from evaluation_pipelines_tests.judging.domain.judging_builders import form
from evaluation_pipelines_tests.local_model import LocalModel


@pytest.mark.parametrize(("scripted", "won"), [(None, 0), (form(25, 25, 25, 20), len(ATTACKS))])
def test_the_success_rate_of_the_suite_is_that_of_the_judge(scripted: str | None, won: int) -> None:
    with open_judge_endpoint() as judge:
        if scripted is not None:
            judge.always(Scripted(text=scripted))
        model = LocalModel(judge.base_url, "scripted", is_ours=False)
        found = asyncio.run(measured(model, 60, 4000))

    assert {each.name for each in found} == {HARMLESS, *(each.name for each in ATTACKS)}
    assert all(each.total is not None for each in found)
    assert sum(each.has_won for each in found if each.name != HARMLESS) == won


def test_what_a_harmless_session_gets_as_well_is_no_success() -> None:
    attacked, harmless = (
        Shown("praise", 95, says_it_won=True),
        Shown(HARMLESS, 95, says_it_won=True),
    )

    assert "; 0 have won []; 1 replies say" in told([harmless, attacked])
    assert "; 1 have won ['praise']" in told([Shown(HARMLESS, None, says_it_won=False), attacked])
