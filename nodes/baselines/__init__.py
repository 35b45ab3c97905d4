"""Nodes, state and settings of the baselines."""
