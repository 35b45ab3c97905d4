"""CompactRAG's knowledge base: reading an index into question-answer pairs, and files of them."""
