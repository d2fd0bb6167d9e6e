"""What is known of a graph, sums over its neighbours, samples and shares of it."""
