"""Search-o1 (Li et al. 2025): searches within a chain of reasoning, and Reason-in-Documents."""
