"""Adaptive Retrieval (Mallen et al. 2023): retrieval for questions about rare entities alone."""
