"""Which engine the settings name."""

import sys

import pytest

from evaluation_pipelines.engine import EngineError, open_engine
from evaluation_pipelines.engine.local import LocalEngine
from evaluation_pipelines.settings import SettingsError, load_settings

POSTGRESQL = "postgresql+psycopg://user@host/ledger"


def test_the_local_engine_needs_neither_ray_nor_postgresql() -> None:
    assert isinstance(open_engine("local", "sqlite:///ledger.db"), LocalEngine)


def test_workers_elsewhere_need_a_ledger_that_they_reach() -> None:
    with pytest.raises(EngineError, match="EVAL_LEDGER_URL to a PostgreSQL database"):
        open_engine("ray://cluster:10001", "sqlite:///ledger.db")


def test_without_ray_its_name_is_an_error_that_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "evaluation_pipelines.engine.ray_cluster", raising=False)
    with pytest.raises(EngineError, match=r"pip install 'evaluation-pipelines\[ray\]'"):
        open_engine("ray", POSTGRESQL)


@pytest.mark.parametrize("name", ["ray://host", "ray://:1", "ray://host:x", "spark", ""])
def test_other_names_are_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("EVAL_ENGINE", name)
    if not name:  # as if it were not set
        assert load_settings().engine == "local"
        return
    with pytest.raises(SettingsError, match="must be local, ray or ray://<host>:<port>"):
        load_settings()
