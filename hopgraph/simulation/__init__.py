"""Perfect agents behind a real endpoint: what retrieval and control flow are worth apart from the model."""
