"""Engine: where the work of ingest and build runs, on this machine or as tasks of a Ray cluster."""

from evaluation_pipelines.engine.local import LocalEngine
from evaluation_pipelines.engine.work import Engine, EngineError, Work

__all__ = ["Engine", "EngineError", "Work", "open_engine"]


def open_engine(name: str, ledger_url: str, processes: int | None = None) -> Engine:
    """Return an engine, to be used in a ``with`` block.

    Args:
        name: ``local``, ``ray`` or ``ray://<host>:<port>``.
        ledger_url: Workers on other machines cannot reach a file of this one.
        processes: Processes of the local engine; one per core unless given.

    Raises:
        EngineError: Ray is not installed, or the workers could not reach the ledger.
    """
    if name == "local":
        return LocalEngine(processes)
    if name != "ray" and ledger_url.startswith("sqlite"):
        raise EngineError(
            f"EVAL_ENGINE={name}: the ledger is a file of this machine, which workers elsewhere "
            "cannot reach. Set EVAL_LEDGER_URL to a PostgreSQL database."
        )
    try:
        from evaluation_pipelines.engine.ray_cluster import RayEngine
    except ModuleNotFoundError as error:
        raise EngineError(
            f"EVAL_ENGINE={name}: Ray is not installed ({error}). "
            "Install it with: pip install 'evaluation-pipelines[ray]'."
        ) from error
    return RayEngine(None if name == "ray" else name)
