"""Revisions of the ledger, each up and down."""
