"""On-disk graphs: memory-mapped CSR arrays and features, for graphs larger than memory."""
