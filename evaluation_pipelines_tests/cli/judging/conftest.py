"""A scripted judge and sessions for it."""

from collections.abc import Iterator

import pytest

from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import DAY_S
from evaluation_pipelines_tests.world.built_before import build_by

LONG_AGO_S = -480 * DAY_S


@pytest.fixture
def judge(program: Program) -> Iterator[JudgeEndpoint]:
    """A judge endpoint and three sessions."""
    lines = [session_with_texts(f"s{n}", LONG_AGO_S + 60 * n) for n in range(1, 4)]
    build_by(program, b"".join(lines))
    with open_judge_endpoint() as endpoint:
        program.set("OPENAI_BASE_URL", endpoint.base_url)
        program.set("EVAL_JUDGE_MODEL", "judge-1")
        program.set("EVAL_JUDGE_INPUT_USD_PER_MTOK", "1")
        program.set("EVAL_JUDGE_OUTPUT_USD_PER_MTOK", "10")
        yield endpoint
