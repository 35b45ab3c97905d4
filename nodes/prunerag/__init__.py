"""PruneRAG's own nodes, state and settings."""
