"""Readers of document formats, one file a format."""
