"""Exclusion rules: which sessions they exclude, and which rules are invalid."""

import polars as pl
import pytest

from evaluation_pipelines.sessions.domain.performance import excluded_by
from evaluation_pipelines.settings.exclusions import Rules, check_rules
from evaluation_pipelines_tests.builders import session, sessions_frame


def test_the_first_rule_whose_conditions_all_match_excludes_a_session() -> None:
    rules = {
        "robots": {"user_id": "ci", "team_id": "platform"},
        "sandbox": {"organization_id": "sandbox"},
        "ci": {"user_id": "ci"},
    }
    sessions = sessions_frame(
        [
            session(user_id="ci", team_id="platform", organization_id="sandbox"),
            session(user_id="ci", organization_id="sandbox"),
            session(user_id="ci", team_id="search"),
            session(user_id="ada", team_id="platform"),
            session(),
        ]
    )
    found = sessions.with_columns(excluded_by(rules))["excluded_by"].to_list()
    assert found == ["robots", "sandbox", "ci", None, None]
    without = sessions.with_columns(excluded_by({}))["excluded_by"]
    assert (without.dtype, without.to_list()) == (pl.String(), [None] * 5)


def test_a_user_is_also_known_by_the_anonymous_id_that_was_sent_as_user_id() -> None:
    sessions = sessions_frame(
        [
            session(account_id="5bd1"),
            session(user_id="ada@x", account_id="5bd1"),
            session(user_id="5bd1", account_id="other"),
            session(user_id="ada@x", account_id="other"),
        ]
    )
    found = sessions.with_columns(excluded_by({"ci": {"user_id": "5bd1"}}))["excluded_by"]
    assert found.to_list() == ["ci", "ci", "ci", None]
    by_place = {"ci": {"repository": "engine", "person_id": "ada"}}
    rows = sessions_frame(
        [session(repository="engine", person_id="ada"), session(repository="engine")]
    )
    assert rows.with_columns(excluded_by(by_place))["excluded_by"].to_list() == ["ci", None]


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"all": {}}, "'all' must have a name, and name at least one column"),
        ({" ": {"user_id": "ci"}}, "must have a name"),
        ({"long": {"user_id": "ci", "prompt": "x"}}, "'long' names prompt, which is none of: org"),
    ],
)
def test_a_rule_that_excludes_everything_or_names_no_column_is_refused(
    rules: Rules, why: str
) -> None:
    check_rules({"ci": {"user_id": "ci", "masque": "Scout"}})
    with pytest.raises(ValueError, match=why):
        check_rules(rules)
