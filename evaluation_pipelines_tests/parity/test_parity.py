"""Nothing that the program tells has changed since the digests were written."""

import pytest

from evaluation_pipelines_tests.parity.__main__ import check


@pytest.mark.slow
def test_every_surface_is_as_the_digests_say(capsys: pytest.CaptureFixture[str]) -> None:
    changed = check(write=False)
    assert changed == 0, capsys.readouterr().out
