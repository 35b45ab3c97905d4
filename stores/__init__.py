"""What is kept: passages, checkpoints, model replies."""
