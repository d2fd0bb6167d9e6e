"""Models of sequences and translation, their data, loader and tokens: imported when asked for."""
