"""What answers: chat endpoint, embeddings, the embedded server and its weights."""
