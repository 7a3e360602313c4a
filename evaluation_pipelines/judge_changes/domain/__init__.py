"""Judges and their changes: anchors drawn, shifts split into judge and agents."""
