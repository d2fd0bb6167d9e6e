"""Graphs and series as tables: a row per node, edge or time, and what their columns are."""
