"""Base of errors that users can fix."""


class UserError(Exception):
    """The message says what happened, where, and what to do; programs print it and exit."""
