"""Graphs on disk, mapped and never read whole."""
