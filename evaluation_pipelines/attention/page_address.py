"""The address of a page that an item names; the domain quotes nothing."""

from urllib.parse import quote, urlencode

from evaluation_pipelines.attention.domain.item import Page


def address_of(page: Page) -> str:
    """Return the path and query of a page of the service, or the URL of one of another server."""
    path = "/".join(quote(each, safe="") for each in page.path)
    query = f"?{urlencode(page.query)}" if page.query else ""
    return f"{page.server}/{path}{query}"
