import pytest

from evaluation_pipelines.erasure.forget import without_people

ADA = "  ada:\n    name: Ada\n    # her ids\n    ids:\n      - email: a@x\n"
BEN = "  # stays\n  ben:\n    name: Ben\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("people:\n" + ADA + BEN, "people:\n" + BEN),
        ("people:\n" + BEN + ADA, "people:\n" + BEN),
        ("people:\n" + BEN + ADA.rstrip("\n"), "people:\n" + BEN),
        ("# all\npeople:\n" + ADA + "\n# end\n", "# all\npeople: {}\n\n# end\n"),
        ("people:\n  # first\n" + ADA, "people: {}\n  # first\n"),
        ("people: {ada: {name: Ada}}\n", "people: {ada: {name: Ada}}\n"),
        ("people:\n  ada: [\n", "people:\n  ada: [\n"),
        ("", ""),
        ("people:\n", "people:\n"),
    ],
    ids=[
        "first",
        "last",
        "no newline",
        "only",
        "only, after a comment",
        "in one line",
        "broken",
        "empty",
        "no people",
    ],
)
def test_an_entry_is_cut_out_and_comments_of_others_stay(text: str, left: str) -> None:
    assert without_people(text, lambda person: person == "ada") == left
