"""PRISM's own nodes, state and settings."""
