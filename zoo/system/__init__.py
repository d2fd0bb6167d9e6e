"""Processes, memory, threads, files, versions: what is around the zoo."""
