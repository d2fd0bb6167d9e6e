"""Own code beside the libraries that could replace it: external sorting, and YAML with lines.

python benchmarks/libraries.py, or with --full for 50 million edges
"""

import tempfile
from pathlib import Path

import numpy as np
from contest import Aim, conclude, contest, contest_of_processes, full_asked

from zoo.config.shipped import recipe_folder

BLOCK = 2**21


def edges(count, nodes):
    """Give random edges (B, 2) between nodes, more of them at small numbers."""
    for number, at in enumerate(range(0, count, BLOCK)):
        random = np.random.default_rng(number)
        size = min(BLOCK, count - at)
        hubs = (random.random(size) ** 2 * nodes).astype(np.int64)
        yield np.stack([hubs, random.integers(nodes, size=size)], axis=1)


def sort_by_buckets(count, nodes, memory, folder):
    """Sort edges as `zoo data prepare --on-disk` does."""
    from zoo.data.mapped.writer import write_neighbours

    write_neighbours(edges(count, nodes), nodes, folder, int(memory * 2**30))


def sort_by_duckdb(count, nodes, memory, folder):
    """Write the same two files from a query of DuckDB."""
    import duckdb
    import pyarrow

    from zoo.data.mapped.writer import ArrayFile

    base = duckdb.connect(str(folder / "keys.db"))
    base.execute(f"SET memory_limit='{memory}GiB'; SET temp_directory='{folder}/spilled'")
    base.execute("SET enable_progress_bar=false; CREATE TABLE keys(key BIGINT)")

    def add(keys):
        base.register("block", pyarrow.table({"key": keys}))
        base.execute("INSERT INTO keys SELECT key FROM block")

    for source, target in (block.T for block in edges(count, nodes)):
        add(np.concatenate([source * nodes + target, target * nodes + source]))
    for at in range(0, nodes, BLOCK):
        add(np.arange(at, min(at + BLOCK, nodes)) * (nodes + 1))
    degrees = np.zeros(nodes, np.int32)
    query = base.sql("SELECT DISTINCT key FROM keys ORDER BY key")
    with ArrayFile(folder / "indices.npy", np.int32) as indices:
        for batch in query.to_arrow_reader(2**20):
            targets, sources = np.divmod(batch.column(0).to_numpy(), nodes)
            indices.append(sources)
            found, counts = np.unique(targets, return_counts=True)
            degrees[found] += counts.astype(np.int32)
    with ArrayFile(folder / "indptr.npy", np.int32) as indptr:
        indptr.append(np.concatenate([[0], np.cumsum(degrees, dtype=np.int64)]))
    base.close()


def sorting(way, *size):
    """Return a step that sorts into a folder of its own, and returns a number of the result."""
    from zoo.data.mapped.writer import sha256

    def step():
        with tempfile.TemporaryDirectory() as name:
            way(*size, Path(name))
            hashes = [sha256(Path(name, f"{each}.npy"))[:6] for each in ("indptr", "indices")]
        return int("".join(hashes), 16)

    return step


def compare_sorts(count, nodes, memory):
    """Return lines of the table, and what is aimed at."""
    ways = {"zoo": sort_by_buckets, "DuckDB": sort_by_duckdb}
    steps = {name: (sorting, (way, count, nodes, memory)) for name, way in ways.items()}
    costs = contest_of_processes(steps, rounds=3, preloaded=())
    zoo, peer = costs.values()
    assert zoo.found == peer.found
    task = f"sort {count:,} edges in {memory:g} GiB"
    lines = [
        {
            "task": task,
            "way": name,
            "s": f"{each.seconds:.2f}",
            "peak GB": f"{each.bytes / 1e9:.2f}",
        }
        for name, each in costs.items()
    ]
    return lines, [
        Aim("DuckDB by zoo, sorting", peer.seconds / zoo.seconds, 1, least=True),
        Aim("DuckDB by zoo, memory", peer.bytes / zoo.bytes, 1, least=True),
    ]


def compare_yaml():
    """Return lines of the table, and what is aimed at: every recipe, with the lines of its keys."""
    from ruamel.yaml import YAML

    from zoo.config.yaml_lines import read_draft

    paths = sorted(recipe_folder().glob("*/*.yaml"))
    medians = contest(
        {
            "zoo": lambda: [read_draft(path, path.name) for path in paths],
            "ruamel.yaml": lambda: [YAML(typ="rt", pure=True).load(path) for path in paths],
        },
        rounds=7,
    )
    zoo, peer = medians.values()
    task = f"read {len(paths)} recipes"
    lines = [
        {"task": task, "way": name, "s": f"{each:.2f}", "peak GB": ""}
        for name, each in medians.items()
    ]
    return lines, [Aim("ruamel.yaml by zoo, reading", peer / zoo, 1, least=True)]


def main():
    """Measure and conclude."""
    full = full_asked(__doc__)
    size = (50_000_000, 10_000_000, 1.0) if full else (5_000_000, 1_000_000, 0.1)
    found = [compare_sorts(*size), compare_yaml()]
    conclude(__file__, full, *(sum(each, []) for each in zip(*found, strict=True)))


if __name__ == "__main__":
    main()
