"""Words that are compared with what was forgotten."""

from evaluation_pipelines.telemetry.domain.forgotten import Forgotten, names_forgotten


def test_long_words_are_compared_but_not_kept() -> None:
    long = "x" * 100_000
    forgotten = Forgotten(hashes={Forgotten().id_hash(long): None})
    assert names_forgotten(f"a {long}", forgotten)
    assert not names_forgotten(f"a {long}y", forgotten)
    assert forgotten._words == {"a": False}
