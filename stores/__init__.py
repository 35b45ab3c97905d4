"""Storage: indexes, knowledge bases, checkpoints, exemplars, cached replies."""
