"""Perfect agents behind a real endpoint, to measure retrieval and control flow independently of a model."""
