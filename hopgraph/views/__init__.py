"""Views of results: for the terminal."""
