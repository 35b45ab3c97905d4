"""Rerankers: a query and texts in, relevance out. Add one: a class like `scores.Reranker`, named in `configured.py`."""
