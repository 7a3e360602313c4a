"""Migrations of the ledger by Alembic."""
