"""Erasure: ``forget`` a subject in every store, and ``expire`` old data.

* ``domain.subject``: the subject of a request.
* ``selection``: its sessions and ids.
* ``landing_files``: files with its traces.
"""
