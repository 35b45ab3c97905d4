"""The compound-question benchmark: several questions about one entity, written by a model and merged (App. B.1)."""
