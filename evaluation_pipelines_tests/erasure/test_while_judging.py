"""An erasure while the judge is at work on the session."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines_tests.erasure.two_people import EMAIL, SESSION, found, of_ada, of_ben
from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint
from evaluation_pipelines_tests.judged import fill, open_judged
from evaluation_pipelines_tests.workplace import NOW


@pytest.mark.slow
def test_replies_about_a_forgotten_session_are_not_stored_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    with open_judge_endpoint() as endpoint, open_judged(tmp_path, endpoint.base_url) as judged:
        fill(judged.workplace, of_ada() + of_ben())
        endpoint.latency_s = 4
        with ThreadPoolExecutor(1) as pool:
            run = pool.submit(judged.run)
            endpoint.wait_for(2)
            Forget(judged.workplace.stores, "root", clock=lambda: NOW).run(Subject("person", EMAIL))
            endpoint.latency_s = 0
            run.result()

        assert judged.scores(f"{SESSION}#baseline-1") == []
        assert judged.score("sess-of-ben#baseline-1").status == "completed"
        assert {path.partition("/")[0] for path in found(tmp_path)} == {"landing"}
