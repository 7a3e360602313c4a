"""Errors that people can mend."""


class UserError(Exception):
    """Its message says what happened, where, and what to do: a program prints that and ends."""
