"""CompactRAG's own nodes, state and settings, those of its reader among them."""
