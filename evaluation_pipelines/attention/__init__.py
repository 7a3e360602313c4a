"""Attention: one list of what needs a person, for terminal, pages, digest and alerts.

* ``gather`` collects facts, with ``machine`` from this machine, with ``domain.arrivals`` and
  ``domain.session_facts`` from telemetry.
* ``domain.items`` decides what needs a person: each is a ``domain.item``.
* ``checks`` stores alerts in ``alert_store``. ``domain.messages`` writes their text, ``send``
  delivers them and the weekly ``digest`` (``domain.digest``).
"""
