"""Two machines that publish, with one ledger in PostgreSQL."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.reporting import publish as publishing
from evaluation_pipelines.reporting.analysts_database import (
    AnalyticsError,
    Published,
    replace_database,
)
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.storage.lock import PUBLISH, held
from evaluation_pipelines_tests.storage.locks import lose_lock
from evaluation_pipelines_tests.workplace import NOW, open_workplace
from evaluation_pipelines_tests.world import session
from evaluation_pipelines_tests.world.built_before import build_from

pytestmark = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


def test_a_publish_that_waits_too_long_names_the_machine_that_publishes(
    tmp_path: Path, url: str
) -> None:
    with open_workplace(tmp_path, ledger_url=url, lock_timeout_seconds=1) as workplace:
        build_from(workplace, session("a"))
        pattern = rf"publish .*: process {os.getpid()} on {socket.gethostname()} holds it"
        with (
            held(workplace.ledger, PUBLISH),
            pytest.raises(AnalyticsError, match=pattern),
        ):
            publish_analytics(workplace.stores, NOW)
        assert publish_analytics(workplace.stores, NOW).link.exists()


def test_a_publish_whose_lock_was_taken_swaps_no_database(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection was cut."""
    with open_workplace(tmp_path, ledger_url=url) as workplace:
        build_from(workplace, session("a"))

        def publish_late(*arguments: Any) -> Published:
            lose_lock(workplace.ledger, PUBLISH)
            return replace_database(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(publishing, "replace_database", publish_late)
            with pytest.raises(AnalyticsError, match="lock publish is lost"):
                publish_analytics(workplace.stores, NOW)
        assert not list(workplace.settings.analytics_path.parent.glob("analytics*/*"))
        assert publish_analytics(workplace.stores, NOW).link.exists()


def test_a_lock_that_is_lost_after_the_swap_does_not_deny_it(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_workplace(tmp_path, ledger_url=url) as workplace:
        build_from(workplace, session("a"))

        def lose_late(*arguments: Any) -> Published:
            published = replace_database(*arguments)
            lose_lock(workplace.ledger, PUBLISH)
            return published

        monkeypatch.setattr(publishing, "replace_database", lose_late)
        published = publish_analytics(workplace.stores, NOW)
        assert published.link.resolve() == published.file
