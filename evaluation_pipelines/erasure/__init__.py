"""Erasure: ``forget`` a subject in every store, and ``expire`` old data.

``domain.subject`` is whom a request is about, ``selection`` its sessions and ids,
``landing_files`` the files that still have some of them.
"""
