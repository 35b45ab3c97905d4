"""Model access: chat endpoint, embeddings, the embedded server and its weights, structured output, trained heads."""
