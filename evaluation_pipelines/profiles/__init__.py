"""Profiles: which sessions are scored by which criteria, and all versions of that.

``sync`` registers files, ``profile_store`` keeps the ``domain.registry`` of each
``domain.profile``. ``domain.heuristics`` has the computed criteria.
"""
