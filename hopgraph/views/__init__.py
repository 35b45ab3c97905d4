"""Views of results: terminal, trace page, evaluation tables and report."""
