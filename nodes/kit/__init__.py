"""What every node uses: asking the model, searching, passages, prompts' text, and the bases of state and context."""
