"""Perfect agents behind a real endpoint, to measure retrieval and control flow apart from the model."""
