"""A trained model and a graph to answers: predictions, embeddings, scores."""
