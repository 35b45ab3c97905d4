"""Files that repeat what the code says, written from it: `python -m hopgraph.generated`."""
