"""Training of the small models that the methods use. Only this folder needs torch (`pip install hopgraph[train]`)."""
