"""Reporting: ``publish`` writes the ``analysts_database`` and the ``comparison_report``.

``books`` accounts for every session and event, ``session_view`` shows one session,
``agent_changes`` compares now with before, ``pages`` makes HTML, ``domain`` charts and tables.
"""
