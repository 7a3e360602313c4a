"""``docs/commands.md`` is what the program says of itself."""

from evaluation_pipelines_tests.docs.commands import PAGE, commands_markdown


def test_the_page_of_commands_is_up_to_date() -> None:
    # Refresh it with: .venv/bin/python -m evaluation_pipelines_tests.docs.commands
    assert PAGE.read_text(encoding="utf-8") == commands_markdown()
