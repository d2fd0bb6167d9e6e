"""A page per run and per comparison of runs: one file of HTML that needs nothing else."""
