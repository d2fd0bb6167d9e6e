"""Small pairs of sentences: numbers, counted in one language and in another."""

import gzip
import random

ENGLISH = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
GERMAN = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]


def sentences(count, seed):
    """Return English and German sentences; the German ones end with the first word."""
    draw = random.Random(seed)
    rows = [[draw.randrange(10) for _ in range(draw.randint(2, 6))] for _ in range(count)]
    english = [" ".join(ENGLISH[each] for each in row) + "." for row in rows]
    german = [" ".join(GERMAN[each] for each in row[1:] + row[:1]) + "!" for row in rows]
    return english, german


def write_pairs(folder, train=120, rest=20, *, compressed=True):
    """Write a folder of pairs, English and German, and return it."""
    folder.mkdir(parents=True)
    for seed, (part, count) in enumerate({"train": train, "val": rest, "test": rest}.items()):
        for language, lines in zip(("en", "de"), sentences(count, seed), strict=True):
            content = "".join(f"{line}\n" for line in lines).encode()
            name = f"{part}.{language}" + (".gz" if compressed else "")
            (folder / name).write_bytes(gzip.compress(content) if compressed else content)
    return folder
