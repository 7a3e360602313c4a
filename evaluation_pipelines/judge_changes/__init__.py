"""Judge changes: what another judge did to the scores, by sessions that both have scored.

``anchors`` has sessions scored again; ``domain.bridge`` puts both scales on one.
"""
