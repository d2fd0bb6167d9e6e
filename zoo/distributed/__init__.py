"""Graphs in parts on several machines: cut, serve, join."""
