"""The models of sequences and of pairs of them, one file each: importing registers them all."""
