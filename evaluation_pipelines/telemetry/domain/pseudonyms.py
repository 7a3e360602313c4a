"""Pseudonyms: keyed hashes in place of the ids of people and the names of hosts."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl

from evaluation_pipelines.telemetry.domain.forgotten import comparable_id

ID_COLUMNS = ("user_email", "user_id", "host_user")
"""Columns of events that become pseudonyms; ``account_id`` is one already, made by the agent."""

ATTRIBUTES = frozenset(
    "host.name host.id net.host.name process.owner user.email user.id user.name user.full_name "
    "enduser.id".split()
)
"""Attributes without a column of their own that become pseudonyms."""

_PSEUDONYM = re.compile(r"p-[0-9a-f]{20}")


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """Pseudonyms by a key; without the key they are anonymous."""

    key: bytes

    def of(self, value: str) -> str:
        """Return the pseudonym of an id; e-mails in any letters are one. A pseudonym is its own."""
        if _PSEUDONYM.fullmatch(value):
            return value
        content = comparable_id(value).encode(errors="surrogatepass")
        return f"p-{hashlib.blake2b(content, key=self.key, digest_size=10).hexdigest()}"

    def events(self, events: pl.DataFrame) -> pl.DataFrame:
        """Return events with pseudonyms: EVENTS_WITH_TEXTS."""
        columns = [self._column(events[name]) for name in ID_COLUMNS]
        return events.with_columns(
            *columns,
            self._texts(events["attributes"]),
            self._session_attributes(events["session_attributes"]),
        )

    def ids(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows with pseudonyms in those columns of ids that they have."""
        return rows.with_columns(
            self._column(rows[name]) for name in ID_COLUMNS if name in rows.columns
        )

    def _column(self, column: pl.Series) -> pl.Series:
        known = {each: self.of(each) for each in column.drop_nulls().unique()}
        return column.replace_strict(known, default=None, return_dtype=pl.String)

    def _texts(self, texts: pl.Series) -> pl.Series:
        """Return JSON texts of attributes with pseudonyms."""
        if texts.null_count() == texts.len():
            return texts
        known = {each: self._text(each) for each in texts.drop_nulls().unique()}
        return texts.replace_strict(known, default=None, return_dtype=pl.String)

    def _text(self, text: str) -> str:
        if not any(name in text for name in ATTRIBUTES):
            return text
        attributes = msgspec.json.decode(text)
        if not isinstance(attributes, dict):
            return text
        return msgspec.json.encode(self._attributes(attributes)).decode()

    def _attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self.of(str(value)) if name in ATTRIBUTES else value
            for name, value in attributes.items()
        }

    def _session_attributes(self, column: pl.Series) -> pl.Series:
        if column.null_count() == column.len():
            return column
        rows = [
            None
            if pairs is None
            else [
                {**pair, "value": self.of(pair["value"])} if pair["key"] in ATTRIBUTES else pair
                for pair in pairs
            ]
            for pairs in column.to_list()
        ]
        return pl.Series(column.name, rows, dtype=column.dtype)
