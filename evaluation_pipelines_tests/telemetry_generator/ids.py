"""Identifiers in the forms that the agent program gives them."""

from random import Random


def uuid_text(random: Random) -> str:
    """A UUID of version 4."""
    digits = f"{random.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def request_id(random: Random) -> str:
    """Id of an API request."""
    return f"req_{random.getrandbits(96):024x}"


def call_id(random: Random) -> str:
    """Id of a tool call."""
    return f"toolu_{random.getrandbits(96):024x}"
