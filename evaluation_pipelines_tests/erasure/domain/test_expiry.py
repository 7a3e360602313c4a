"""Which days have expired."""

from datetime import date

from evaluation_pipelines.erasure.domain.expiry import Kept


def test_a_day_is_kept_for_as_many_days_as_are_set() -> None:
    kept, today = Kept(events=30), date(2026, 6, 30)
    assert kept.has_expired("events", date(2026, 5, 30), today)
    assert not kept.has_expired("events", date(2026, 5, 31), today)
    assert not kept.has_expired("texts", date(2020, 1, 1), today)
