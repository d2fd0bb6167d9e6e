"""Distributed training on a partitioned graph: partition, graph servers, trainers."""
