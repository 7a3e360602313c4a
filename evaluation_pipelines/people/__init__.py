"""People: ``identity_store`` has the identities file and what reports show of people.

``domain.identities`` says who is who, ``domain.parse`` reads the file.
"""
