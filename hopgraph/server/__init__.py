"""`hopgraph serve`: the methods behind the OpenAI API, as a Starlette application."""
