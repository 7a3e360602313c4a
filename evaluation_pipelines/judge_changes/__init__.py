"""Judge changes: what another judge did to the scores, by sessions that both have scored.

``measure`` finds and measures them, ``score_anchors`` has sessions scored again, ``domain.bridge``
splits the shift.
"""
