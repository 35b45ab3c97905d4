"""Prompts as text files, and their loader."""
