"""The school of the agents: perfect agents play training questions, and their replies teach a model."""
