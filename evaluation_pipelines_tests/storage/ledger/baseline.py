"""A ledger of the baseline: the program opens it, and makes new ones from the code."""

from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml
from alembic import op
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory

from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.ledger import (
    BASELINE_REVISION,
    VERSION_TABLE,
    migration_config,
)

_TABLES = Path(__file__).parents[2] / "data" / "ledger_baseline.yaml"
_TYPES: dict[str, Any] = {
    "text": sa.String(),
    "longtext": sa.Text(),
    "json": sa.JSON(none_as_null=True),
    "int": sa.Integer(),
    "bigint": sa.BigInteger(),
    "bigid": sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
    "smallint": sa.SmallInteger(),
    "float": sa.Float(),
    "double": sa.Double(),
    "bool": sa.Boolean(),
    "time": sa.DateTime(timezone=True),
    "date": sa.Date(),
    "bytes": sa.LargeBinary(),
    **{f"char{length}": sa.CHAR(length) for length in (12, 32, 64)},
}


def make_baseline(engine: sa.Engine) -> None:
    """Create the tables of the baseline in an empty database."""
    with writing(engine) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        with Operations.context(context):
            create_tables()
        context.stamp(ScriptDirectory.from_config(migration_config(connection)), BASELINE_REVISION)


def create_tables() -> None:
    """Create the tables and their indexes."""
    for name, table in yaml.safe_load(_TABLES.read_text(encoding="utf-8")).items():
        op.create_table(
            name,
            *map(_column, table["columns"].split(", ")),
            *(_reference(key, told) for key, told in table.get("references", {}).items()),
            sa.PrimaryKeyConstraint(*table["key"].split(), name=f"pk_{name}"),
            *(
                sa.UniqueConstraint(*columns.split(), name=key)
                for key, columns in table.get("unique", {}).items()
            ),
            **({"sqlite_autoincrement": True} if table.get("autoincrement") else {}),
        )
        for index, told in table.get("indexes", {}).items():
            _create_index(index, name, told)


def _column(told: str) -> sa.Column[Any]:
    """Return the column of "name type", with ``?`` if it may be null, and its default."""
    told, _, default = told.partition(" default ")
    name, kind, *given = told.split()
    options: dict[str, Any] = {"autoincrement": False} if given else {}
    if default:
        options["server_default"] = sa.text(default) if default == "0" else default
    return sa.Column(name, _TYPES[kind.removesuffix("?")], nullable=kind.endswith("?"), **options)


def _reference(name: str, told: str) -> sa.ForeignKeyConstraint:
    column, other = told.split()
    return sa.ForeignKeyConstraint([column], [other], name=name)


def _create_index(name: str, table: str, told: str) -> None:
    columns, _, condition = told.partition(" where ")
    unique = columns.startswith("unique ")
    where: dict[str, Any] = dict.fromkeys(("sqlite_where", "postgresql_where"), sa.text(condition))
    op.create_index(
        name,
        table,
        columns.removeprefix("unique ").split(),
        unique=unique,
        **(where if condition else {}),
    )
