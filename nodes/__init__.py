"""The nodes that graphs are made of: one role a file."""
