"""Links from Dagster's interface to the pages of the service."""

from datetime import date

import dagster as dg

from evaluation_pipelines.schemas import EVALUATION_BOOKS, TOOL_REPORTS, Table
from evaluation_pipelines.settings import Settings


def page_link(settings: Settings, table: Table, day: date) -> dict[str, dg.MetadataValue]:
    """Return metadata that links to the page of a day; none if no URL of the service is set."""
    if settings.service_url is None:
        return {}
    return {"page": dg.MetadataValue.url(f"{settings.service_url}{_path(table, day)}")}


def _path(table: Table, day: date) -> str:
    if table is EVALUATION_BOOKS:
        return f"/operations/books/{day}"
    page = "/tools" if table is TOOL_REPORTS else "/sessions"
    return f"{page}?from={day}&to={day}"
