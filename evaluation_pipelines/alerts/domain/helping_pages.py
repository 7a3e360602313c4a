"""The page that has what helps against an alert: one for the overview, ``doctor`` and people."""

from evaluation_pipelines.alerts.domain.messages import (
    FAILED_RUN,
    JUDGE_DOWN,
    OPEN_BOOKS,
    PARKED,
    QUALITY_RISKS,
    REGRESSION,
    UNJUDGED,
    Alert,
    run_of,
)


def helping_page(alert_id: int, alert: Alert, dagster_url: str | None) -> str | None:
    """Return the path of a page of the service, or the URL of a run in Dagster's interface.

    Args:
        alert_id: Id of the alert.
        alert: The alert.
        dagster_url: URL of Dagster's interface, without a slash at its end; ``None``: not known.

    Returns:
        ``None`` if no page helps.
    """
    if alert.kind == FAILED_RUN:
        run_id = run_of(alert)
        is_known = run_id is not None and dagster_url is not None
        return f"{dagster_url}/runs/{run_id}" if is_known else None
    pages = {
        QUALITY_RISKS: f"/sessions?alert={alert_id}",
        REGRESSION: "/models",
        OPEN_BOOKS: f"/books/{alert.cause}",
        PARKED: f"/books/{alert.cause}",
        JUDGE_DOWN: "/judge",
        UNJUDGED: "/judge",
    }
    return pages.get(alert.kind)
