"""Small trained heads on the built-in encoder: hops, answer spans, rewriting, relevance and routing."""
