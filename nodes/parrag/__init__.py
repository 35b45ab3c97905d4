"""PAR-RAG's own nodes, state and settings."""
