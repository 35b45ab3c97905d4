"""`hopgraph studio`: LangGraph's local server with all graphs, for Studio and for API clients."""
