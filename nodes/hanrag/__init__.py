"""HANRAG's own nodes, state and settings."""
