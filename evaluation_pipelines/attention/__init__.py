"""Attention: one list of what needs a person, for terminal, pages, digest and alerts.

``gather`` collects its facts (``machine``: of this machine, ``domain.arrivals`` and
``domain.session_facts``: of telemetry), ``domain.items`` decides (``domain.item``: one of them).
``checks`` raises alerts into ``alert_store``, ``domain.messages`` words and ``send`` sends them,
as it does the week's ``digest`` (``domain.digest``).
"""
