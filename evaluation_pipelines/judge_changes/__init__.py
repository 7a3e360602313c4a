"""Judge changes: what another judge did to the scores, by sessions that both have scored.

``anchors`` finds and measures them, ``score_anchors`` has sessions scored again,
``domain.judge_change`` splits the shift.
"""
