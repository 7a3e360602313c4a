"""Repositories as people call them."""

from evaluation_pipelines.sessions.domain.session_filter import short_name, short_names


def test_a_repository_is_called_by_the_last_part_of_its_address() -> None:
    assert short_name("https://git.example/team/shop.git") == "shop"
    assert short_name("team/shop/") == "shop"
    assert short_name("shop") == "shop"
    assert short_name("/") == "/"


def test_two_that_would_have_one_name_keep_their_addresses() -> None:
    assert short_names(["a/shop", "b/shop.git", "git/engine", None]) == {
        "a/shop": "a/shop",
        "b/shop.git": "b/shop.git",
        "git/engine": "engine",
    }
