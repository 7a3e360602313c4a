"""The console of ``dg dev`` has a line for a run that has succeeded, and no other of its events."""

import logging

import dagster as dg
import pytest

from evaluation_pipelines.defs.run_log import SuccessLog


@dg.asset(partitions_def=dg.StaticPartitionsDefinition(["a", "b"]))
def rows(context: dg.AssetExecutionContext) -> None:
    """Something in two partitions."""
    context.log.info("said by a step")


@dg.asset
def report(context: dg.AssetExecutionContext) -> None:
    """Something whole."""
    context.log.info("said by a step")


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> logging.Handler:
    handler = SuccessLog("DEBUG")
    monkeypatch.setattr(dg.DagsterInstance, "get_yaml_python_handlers", lambda _instance: [handler])
    return handler


@pytest.mark.usefixtures("console")
def test_a_success_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        ran = dg.materialize([rows], instance=instance, partition_key="b")
        told = dg.materialize([report], instance=instance)
    lines = [each for each in capfd.readouterr().out.splitlines() if "succeeded" in each]
    assert [each.partition(" - ")[2] for each in lines] == [
        f"run {ran.run_id[:8]} succeeded: rows",
        f"run {told.run_id[:8]} succeeded: report",
    ]


@pytest.mark.usefixtures("console")
def test_a_failure_is_none(capfd: pytest.CaptureFixture[str]) -> None:
    @dg.asset
    def broken() -> None:
        raise dg.Failure("no")

    with dg.DagsterInstance.ephemeral() as instance:
        dg.materialize([broken], instance=instance, raise_on_error=False)
    assert "succeeded" not in capfd.readouterr().out
