"""Judge changes: what another judge did to the scores, by sessions that both have scored.

``anchors`` finds and measures them, ``score_anchors`` has sessions scored again,
``domain.judges`` are the judges and ``domain.judge_change`` a change in words.
"""
