"""docs/api.md is that of the routes as they are."""

from evaluation_pipelines_tests.docs.api import PAGE, api_markdown


def test_the_page_of_the_api_is_up_to_date() -> None:
    """Otherwise run ``python -m evaluation_pipelines_tests.docs.api``."""
    assert PAGE.read_text("utf-8") == api_markdown()
