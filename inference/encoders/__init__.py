"""Encoders: texts in, vectors out. Add one: a class with the methods of `vectors.Encoder`, named in `configured.py`."""
