"""Attention: one list of what needs a person.

``gather`` collects the facts, ``domain.items`` decides; ``status``, ``doctor``, the overview, the
digest and alerts show the same items.
"""
