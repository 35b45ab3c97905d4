"""LangGraph's local server with all graphs in it, for Studio and for programs: `hopgraph studio`."""
