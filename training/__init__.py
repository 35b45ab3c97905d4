"""Training of the small models that the methods use: from a clone, with torch (`pip install -e .[train]`)."""
