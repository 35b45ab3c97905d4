"""Evaluation: questions with gold answers, metrics, and a runner whose work survives a crash."""
