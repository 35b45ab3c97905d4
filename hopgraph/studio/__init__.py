"""`hopgraph studio`: LangGraph's local server with all graphs and a page of its own, for Studio and for API clients."""
