"""ProbTree (Cao et al. 2023): a tree of sub-questions, each answered in three ways; the most probable is kept."""
