"""The commands that train, and read runs: train, reproduce, compare, results, finetune, report."""

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from zoo.cli import console, result_tables
from zoo.cli.common import (
    AsJson,
    Data,
    Device,
    DeviceName,
    Imports,
    Layerwise,
    Overrides,
    Quiet,
    Runs,
    Track,
    Trusted,
    Unverified,
    Weights,
    exit_code,
    graceful_shutdown,
    import_first,
    locate_weights,
    print_imports,
    spec_of,
    typed_path,
    with_data,
)
from zoo.errors import ZooError, brief

app = typer.Typer()


@app.command()
def train(
    context: typer.Context,
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A shipped name, a file, or a model.")
    ] = None,
    overrides: Overrides = None,
    data: Data = None,
    device: DeviceName = Device.auto,
    runs: Runs = Path("runs"),
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Go on with a run that was ended, in its own folder.",
            callback=typed_path,
        ),
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            min=1, help="How many of this machine share the work; torchrun starts those of several."
        ),
    ] = 1,
    profile: Annotated[
        bool, typer.Option("--profile", help="Say which operations take longest, and trace them.")
    ] = False,
    track: Track = None,
    trust: Trusted = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a recipe, or a model as it is, with each of its seeds and write the run's folder.

    zoo train sgformer-cora
    zoo train sgformer-cora model.attention=rba train.epochs=100 'seeds=[0, 1, 2]'
    zoo train gcn-cora dataset=mygraph.npz dataset.label=species
    zoo train sgformer --data mygraph.npz
    zoo train --resume runs/sgformer-cora-20261121-120000

    What the recipe imports is run, with --resume too: look at the recipe of a run that is not
    yours. --resume ends a run with the settings that it was begun with; `zoo finetune RUN --data
    DATA train.lr=0.001` trains on with others, or for longer.

    Memory that one step frees is kept for the next: by jemalloc (Debian's libjemalloc2) or mimalloc
    (graph-transformer-zoo[memory]) where one is installed, which takes a quarter less of it than
    the C library. With a variable of an allocator set, such as MALLOC_TRIM_THRESHOLD_, or
    LD_PRELOAD, nothing is changed.
    """
    from zoo.runs.resolve import check_processes, load_recipe, remarks_on_dataset, resolve
    from zoo.runs.run import explain_changed_resume, load_unfinished_run
    from zoo.system import process_group
    from zoo.system.launcher import launch

    # Of several processes only one that launches others, or the first, prints remarks.
    silent = quiet or os.environ.get("RANK", "0") != "0" or process_group.rendezvous() is not None
    overrides = with_data(data, overrides)
    changes = [text for text in (recipe, *overrides) if text and "=" in text]
    if resume is not None and changes:
        raise ZooError(explain_changed_resume(resume, changes))
    if (recipe is None) == (resume is None):
        raise ZooError(
            "name a recipe, `zoo train sgformer-cora`, or a run to go on with, "
            "`zoo train --resume runs/sgformer-cora-20261121-120000`, which takes no KEY=VALUE."
        )
    if resume is None:
        plan = resolve(load_recipe(recipe, overrides, trust=True), trust=True)
        for sentence in () if silent else remarks_on_dataset(recipe, overrides):
            console.remark(sentence)
    else:
        process_group.start()
        plan = load_unfinished_run(resume, max(processes, process_group.count()))[1]
    if processes > 1 and os.environ.get("WORLD_SIZE", "1") == "1":
        check_processes(plan, processes)
        sys.exit(launch(processes, context.obj))
    options = {"quiet": quiet, "track": track or ()}
    if profile:
        _profile(plan, device, runs, resume, as_json, options)
    else:
        summary = train_plan(plan, device, runs, resume, **options)
        print_summary(summary, as_json, plan.train["epochs"])


def _profile(
    plan, device: Device, runs: Path, resume: Path | None, as_json: bool, options: dict[str, Any]
) -> None:
    """Train and print the summary, then the slowest operations of a few epochs."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler prints nothing of its own
    from zoo.system.environment import choose_device
    from zoo.system.profiler import EPOCHS, FIRST, Profile

    if plan.train["epochs"] < FIRST + EPOCHS:
        raise ZooError(
            f"--profile looks at {EPOCHS} epochs after the first {FIRST}; write "
            f"`train.epochs={FIRST + EPOCHS}` or more."
        )
    profile = Profile(choose_device(device.value))
    summary = train_plan(plan, device, runs, resume, profile.watch, **options)
    profile.close()
    rows = profile.dearest()
    if rows:
        trace = Path(summary["folder"]) / "trace.json"
        profile.write(trace)
        console.remark(f"written: {trace}, for chrome://tracing or ui.perfetto.dev")
    if rows and not as_json:
        console.rows(rows)
    found = {**summary, "dearest": rows} if as_json else summary
    print_summary(found, as_json, plan.train["epochs"])


def print_summary(summary: dict[str, Any], as_json: bool, epochs: int | None = None) -> None:
    """Print the result of a training; one that was stopped ends with 130, or 143."""
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        result_tables.result(summary, epochs)
    if summary["interrupted"]:
        sys.exit(exit_code())


def train_plan(
    plan,
    device: Device,
    runs: Path,
    resume: Path | None = None,
    after_epoch: Callable[[], None] = lambda: None,
    quiet: bool = False,
    track: Sequence[str] = (),
    data: Any = None,
) -> dict[str, Any]:
    """Train a plan behind a progress bar, or go on with a run, and return its summary.

    What it loads from other weights is printed before training begins. Ctrl-C before there is a
    result ends with exit code 130; SIGTERM and SIGHUP end a single process in the same way. Of
    several processes only the first returns.
    """
    from tqdm import tqdm

    from zoo.cli.progress_bar import progress_bar
    from zoo.runs.run import resume_run, run_recipe
    from zoo.system import process_group
    from zoo.system.allocator import keep_freed_memory
    from zoo.system.memory import out_of_memory

    def remark(text: str) -> None:
        with tqdm.external_write_mode():  # the bar makes room for it
            console.remark(text)

    keep_freed_memory()
    process_group.start()
    silent, seeds = process_group.rank() > 0, plan.recipe.seeds
    print_imports(plan.imports, quiet or silent)
    title = f"{plan.recipe.name}: seeds {seeds}, {plan.train['epochs']} epochs each at most"
    # Several may be in the midst of a message to each other: whoever started them ends them.
    shutdown = graceful_shutdown() if process_group.count() == 1 else contextlib.nullcontext()
    with shutdown, progress_bar(seeds, title=title, quiet=quiet or silent) as show:

        def watch(seed: int, epoch: Any) -> None:
            show(seed, epoch)
            after_epoch()

        begin = (lambda start: None) if quiet else result_tables.start
        hooks = {"device": device.value, "watch": watch, "track": track, "tell": remark,
                 "begin": begin}  # fmt: skip
        try:
            if resume is not None:
                summary = resume_run(resume, **hooks)
            else:
                summary = run_recipe(plan, runs=runs, data=data, **hooks)
        except KeyboardInterrupt:
            console.complain("stopped before a first result.")
            sys.exit(exit_code())
        except (MemoryError, RuntimeError) as error:
            if process_group.lost(error):
                _end_as_lost()
            if not out_of_memory(error):
                raise
            summary = None  # what the error holds is freed before memory is estimated
    if summary is None:
        raise ZooError(too_large(plan))
    if silent:
        sys.exit(0)
    return summary


def _end_as_lost() -> NoReturn:
    """End because another process has ended; the launcher of the zoo says the rest."""
    from zoo.system import process_group

    if process_group.rendezvous() is None:  # torchrun, which knows no runs
        raise ZooError(
            "another process has ended, and this one with it. Started again as before, with `zoo "
            "train --resume RUN`, they go on from the last checkpoint, if one was written."
        )
    sys.exit(process_group.LOST)


def too_large(plan) -> str:
    """Return what to do about a plan whose training does not fit into memory."""
    from zoo.config.recipe import word
    from zoo.system import allocator, process_group

    allocator.give_back()  # what the training had
    sentence, size = f"{plan.recipe.name} does not fit into memory", 1000
    if word(batching := plan.train["batching"]) in ("samples", "tokens", "snapshots"):
        size = batching.get("size") if isinstance(batching, dict) else None
        fewer = max(1, (size or 128) // 2)
        return f"{sentence}. Write train.batching.size={fewer}, or a smaller model.dim."
    with contextlib.suppress(MemoryError, RuntimeError, ZooError):  # nor may a small graph fit
        from zoo.runs.estimate_memory import estimate

        # Other processes are in the middle of a step, and could not take part.
        if process_group.count() == 1:
            memory = estimate(plan)
            size = max(1, min(memory.largest or 1, memory.batch) // 2)
            sentence += f": `zoo estimate` says {memory.peak / 2**30:.1f} GiB, on a GPU "
            sentence += f"{memory.peak_cuda / 2**30:.1f}, for steps that see {memory.batch:,} nodes"
    change = f"'train.batching={{name: random-nodes, size: {size}}}' with train.evaluate=batches"
    return f"{sentence}. Take batches, such as {change}, or a smaller model.dim."


@app.command()
def reproduce(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A shipped recipe, or a .yaml file.")
    ] = None,
    overrides: Overrides = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every recipe whose data is at hand; none is downloaded.")
    ] = False,
    within_hours: Annotated[
        float | None,
        typer.Option(min=0, help="With --all, --list: the longest a recipe may take; of --all 3."),
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="PATTERN", help="With --all, --list: names such as 'gcn-*'.")
    ] = "*",
    list_: Annotated[
        bool, typer.Option("--list", help="Train nothing: how long each took, and its numbers.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Write what was measured into the recipes.")
    ] = False,
    device: DeviceName = Device.auto,
    runs: Runs = Path("runs"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a recipe and compare it with the number it should reach: PASS or FAIL.

    zoo reproduce sgformer-cora
    zoo reproduce --list --only 'gcn-*'
    zoo reproduce --all --only 'gcn-*' --within-hours 1

    `zoo reproduce --all` does so with every recipe, each in a process of its own, and tells a line
    of each as it comes. Ended and given again, both go on where they were. FAIL is exit code 1.
    """
    if every and recipe:
        raise ZooError(f"--all trains every recipe as it is; leave {recipe} out, or --all.")
    if not (every or list_) and recipe is None:
        raise ZooError(
            "name a recipe, `zoo reproduce sgformer-cora`, or write --all for every, or --list."
        )
    if recipe and (within_hours is not None or only != "*" or list_):
        raise ZooError("--within-hours, --only and --list are of all; write --all for RECIPE.")
    if list_:
        from zoo.runs.reproduce import expectations

        rows = expectations(only, math.inf if within_hours is None else within_hours)
        typer.echo(json.dumps(rows)) if as_json else result_tables.expectations(rows)
    elif every:
        _reproduce_all(
            3.0 if within_hours is None else within_hours, only, device, runs, write, quiet, as_json
        )
    else:
        _reproduce(recipe, overrides or [], device, runs, write, quiet, as_json)


def _reproduce(
    recipe, overrides, device: Device, runs: Path, write: bool, quiet: bool, as_json: bool
) -> None:
    from zoo.runs.earlier_runs import find_unfinished
    from zoo.runs.reproduce import measurement, write_verified
    from zoo.runs.resolve import load_recipe, resolve
    from zoo.runs.run_folder import verdict
    from zoo.system.environment import using_threads

    loaded = load_recipe(recipe, overrides, trust=True)
    if loaded.expect is None:
        raise ZooError(
            f"{recipe} says no number to reach; use `zoo train`, or write "
            "`expect: {test: 0.84, within: 0.015, source: where it is from}` into the recipe."
        )
    if write and overrides:
        raise ZooError("--write is for a recipe as it is; leave KEY=VALUE out.")
    plan = resolve(loaded, trust=True)
    if folder := find_unfinished(plan, runs):
        console.remark(f"{loaded.name}: goes on in {folder}")
    with using_threads(loaded.verified and loaded.verified.threads):
        summary = train_plan(plan, device, runs, folder, quiet=quiet)
    summary["expect"] = loaded.expect.model_dump()  # it may have changed since the run began
    if summary["interrupted"]:
        print_summary(summary, as_json)
    passed, sentence = verdict(summary)
    if as_json:
        typer.echo(json.dumps({**summary, "passed": passed}))
    else:
        result_tables.result(summary)
        missed = None if passed else loaded.expect.missed
        result_tables.verdict(passed, sentence, loaded.differs, missed)
    if write:
        write_verified(loaded, measurement(loaded, summary))
    sys.exit(0 if passed else 1)


def _reproduce_all(
    hours: float, only: str, device: Device, runs: Path, write: bool, quiet: bool, as_json: bool
) -> None:
    from zoo.runs.reproduce import reproduce_all

    options = {"device": device.value, "runs": runs, "write": write, "quiet": quiet}
    states = []
    try:
        with graceful_shutdown():
            for row in reproduce_all(hours=hours, only=only, tell=console.remark, **options):
                states.append(row["state"])
                if as_json:
                    typer.echo(json.dumps(row))
                else:
                    result_tables.reproduction(row)
    except KeyboardInterrupt:
        console.complain("stopped; what is finished is kept, and what was begun goes on next time.")
        sys.exit(exit_code())
    sys.exit(1 if {"FAIL", "error"} & {*states} else 0)


LatexFile, CsvFile, MarkdownFile, FigureFile = (
    Annotated[Path | None, typer.Option(metavar="FILE", help=text, callback=typed_path)]
    for text in (
        "Write the table for a paper, .tex, with booktabs.",
        "Write the scores, a line for each model and graph.",
        "Write the table in Markdown, .md.",
        "Draw the scores: .svg, .pdf or .png.",
    )
)

Percent = Annotated[bool, typer.Option("--percent", help="84.32 in the place of 0.8432.")]


@app.command()
def compare(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE|RUN|KEY=VALUE",
            help="Recipes or folders of finished runs, and changes of all recipes.",
        ),
    ] = None,
    data: Data = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="Each model's recipe for this data set, as it is tuned; again for more."),
    ] = None,
    attention: Annotated[
        list[str] | None, typer.Option(help="Once with each attention: native, rba, softmax ...")
    ] = None,
    baselines: Annotated[
        bool, typer.Option("--baselines/--no-baselines", help="Add a GCN, an MLP and others.")
    ] = True,
    tuned: Annotated[
        bool,
        typer.Option(
            "--tuned", help="Added baselines as shipped: own features, tuning and budget."
        ),
    ] = False,
    device: DeviceName = Device.auto,
    runs: Annotated[
        Path, typer.Option(help="Where runs are looked for and written.", callback=typed_path)
    ] = Path("runs"),
    again: Annotated[bool, typer.Option("--again", help="Train even what is finished.")] = False,
    latex: LatexFile = None,
    csv: CsvFile = None,
    markdown: MarkdownFile = None,
    figure: FigureFile = None,
    percent: Percent = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train recipes, or read their finished runs, into one table.

    zoo compare sgformer-cora gat-cora train.epochs=200 'seeds=[0, 1, 2]'
    zoo compare sgformer-cora --attention native --attention rba
    zoo compare sgformer-cora --tuned
    zoo compare sgformer gat --data mygraph.npz
    zoo compare --dataset cora train.epochs=200 train.patience=50
    zoo compare runs/sgformer-cora-20261121-120000 gcn-cora gat
    zoo compare sgformer-cora sgformer-citeseer --latex table.tex

    A GCN and an MLP are added where none is named: with their default
    options, on the data, splits and seeds of the first recipe, and with its
    budget (epochs, patience, batching). Changes reach them too. A row whose
    budget, evaluation or `inductive` is not that of most is marked. A model
    beside a finished run, such as gat, is trained as they are, on its data.

    Beside each score stands its difference from the best one, over pairs of
    one seed and split, with a 95 % interval; `noise` where that holds 0. A
    line says what Holm's correction for all comparisons changes.

    Of several data sets it is a table with a column for each, as of
    `zoo results`, and baselines are added on each.

    What a recipe that is named imports is run; of finished runs nothing is.
    """
    from zoo.runs.compare import candidates
    from zoo.runs.compare import compare as train_and_compare
    from zoo.runs.results_table import check_files

    files = check_files({"latex": latex, "csv": csv, "markdown": markdown, "figure": figure})
    changes = [text for text in words or [] if "=" in text and not os.path.exists(text)]
    sources = [text for text in words or [] if text not in changes]
    if data is not None and not sources:
        raise ZooError(f"name what is compared, `zoo compare sgformer gat --data {data}`, or write "
                       f"`--dataset {data}` for every model.")  # fmt: skip
    changes = with_data(data, changes)
    added = {"tuned": tuned, "baselines": baselines, "tell": console.remark}
    entries = candidates(sources, changes, dataset or [], attention or [], **added)
    options = {"device": device.value, "again": again, "quiet": quiet, "tell": console.remark}
    try:
        with graceful_shutdown():
            summaries = train_and_compare(entries, runs=runs, **options)
    except KeyboardInterrupt:
        which = "the same command without --again" if again else "the same command"
        console.complain(f"stopped; {which} reads what is finished, and goes on.")
        sys.exit(exit_code())
    _tell_comparison(summaries, files, percent, as_json)


@app.command()
def results(
    runs: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A folder of runs.", callback=typed_path)
    ] = Path("runs"),
    model: Annotated[
        list[str] | None, typer.Option(help="Runs of this model alone; again for more.")
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Runs on this data set alone; again for more.")
    ] = None,
    latex: LatexFile = None,
    csv: CsvFile = None,
    markdown: MarkdownFile = None,
    figure: FigureFile = None,
    percent: Percent = False,
    as_json: AsJson = False,
) -> None:
    """Put the finished runs of a folder into one table, and train nothing.

    zoo results
    zoo results --dataset cora --model gcn --model sgformer
    zoo results runs --latex table.tex --figure scores.pdf

    A row is a model, a column a graph. The best of each graph is bold, and
    what is not significantly worse is marked, as is what cannot be tested,
    being of other seeds or splits than most. Of runs of the very same
    training it takes the latest. On one graph the table is that of
    `zoo compare`.
    """
    from zoo.runs.compare import compare as side_by_side
    from zoo.runs.compare import finished_runs
    from zoo.runs.results_table import check_files

    files = check_files({"latex": latex, "csv": csv, "markdown": markdown, "figure": figure})
    chosen = {"models": model or [], "datasets": dataset or []}
    entries = finished_runs(runs, console.remark, **chosen)
    summaries = side_by_side(entries, runs=runs, tell=console.remark)
    _tell_comparison(summaries, files, percent, as_json)


def _tell_comparison(
    summaries: list[dict[str, Any]], files: Sequence[Path], percent: bool, as_json: bool
) -> None:
    """Print what was compared, on one graph or several, and write it to files."""
    from zoo.runs.compare import notes
    from zoo.runs.results_table import in_percent, results_table, sentences, write

    scores = results_table(summaries)
    scores = in_percent(scores) if percent else scores
    told = [*sentences(scores), *notes(summaries)]
    if as_json:
        typer.echo(json.dumps(summaries))
    elif scores["graph"].nunique() == 1:
        result_tables.comparison(summaries, percent)
    else:
        result_tables.results(scores, told)
    for path in files:
        write(scores, told, path)
        console.remark(f"written: {path}")


class Beside(StrEnum):
    """What a fine-tuning is compared with."""

    scratch = "scratch"
    nothing = "nothing"


@app.command()
def finetune(
    weights: Weights,
    data: Annotated[
        str, typer.Option("--data", help="A name or PATH; or {name: PATH, label: species}.")
    ],
    overrides: Overrides = None,
    freeze: Annotated[
        list[str] | None,
        typer.Option(help="none, backbone, or names of weights, such as layers.0; again for more."),
    ] = None,
    lr_decay: Annotated[
        float, typer.Option(help="Factor of the learning rate per layer, from the head down.")
    ] = 1.0,
    probe: Annotated[bool, typer.Option("--probe", help="Train nothing but the head.")] = False,
    beside: Annotated[
        Beside | None,
        typer.Option(
            help="Train as much from scratch too, and say which is better. Left out: where "
            "features are other ones, or classes new, and nothing is frozen."
        ),
    ] = None,
    device: DeviceName = Device.auto,
    runs: Runs = Path("runs"),
    imports: Imports = None,
    unverified: Unverified = False,
    track: Track = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train on from weights: a recipe with `start_from`, written out and run.

    zoo finetune runs/gcn-cora-20261121-120000 --data mygraph.npz
    zoo finetune gcn-digits --data mygraph.npz --probe train.epochs=50
    zoo finetune gcn-twitch-de --data twitch-fr --beside scratch
    """
    from zoo.config.scores import in_order_of_validation
    from zoo.runs.finetune import plan_finetuning
    from zoo.system import process_group

    if probe and freeze:
        raise ZooError("--probe freezes all but the head; leave out --freeze.")
    words = ["except-head"] if probe else freeze or ["none"]
    frozen = words[0] if len(words) == 1 else words
    folder = locate_weights(weights)
    import_first(imports, folder)
    planned = plan_finetuning(
        folder, spec_of(data), overrides or [], freeze=frozen, lr_decay=lr_decay,
        imports=imports or [], unverified=unverified,
    )  # fmt: skip
    plan, anew, read, own_rate, other_features, new_classes = planned
    if not quiet and own_rate:
        told = plan.model["name"] in ("gcn", "sgformer") and frozen == "none" and lr_decay == 1
        why = (
            ": lower ones, warm-up and frozen layers were no better by validation where these went "
            "from one Twitch graph to others (docs/transfer.md)"
        )
        lr = plan.train["lr"]
        console.remark(
            f"rate {lr:g}, that of the weights' own training{why if told else ''}; train.lr=0.001 "
            "sets another"
        )
    _tell_differences(plan.dataset["name"], other_features, new_classes)
    process_group.start()
    how = {"quiet": quiet, "track": track or (), "data": read}
    usual = planned.begins_anew and frozen == "none" and process_group.count() == 1
    if beside == Beside.nothing or (beside is None and not usual):
        print_summary(train_plan(plan, device, runs, **how), as_json)
        return
    if process_group.count() > 1:
        raise ZooError("several processes train one run; leave --beside out.")
    if not quiet:
        console.remark("as much is trained from scratch beside (--beside nothing leaves that out)")
    both = []
    for each in (plan, anew):
        both.append(train_plan(each, device, runs, **how))
        if not as_json or both[-1]["interrupted"]:
            print_summary(both[-1], as_json)
    if as_json:
        better, other = in_order_of_validation(*both)
        print_summary({**better, "other_run": other}, as_json)
    else:
        result_tables.better(*in_order_of_validation(*both))


def _tell_differences(data: str, other_features: bool, new_classes: Sequence[str]) -> None:
    """Say which of the weights' ends begin anew, and what the rest was worth where measured."""
    if other_features:
        console.remark(
            f"{data} has other features than the weights, and is read and divided as in any "
            "recipe: only the layers between stem and head are carried over. Where that was "
            "measured, on twelve pairs of graphs, it came to 1.1 points less than from scratch in "
            "the mean, from -8.2 to +3.6 (docs/transfer.md)."
        )
    if new_classes:
        console.remark(
            f"the weights do not know {brief(', '.join(new_classes))} of {data}: what the head has "
            "for a class it does not know begins anew."
        )


@app.command()
def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Folders of runs.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write. Left out: report.html in the run, of several here.",
            callback=typed_path,
        ),
    ] = None,
    layerwise: Layerwise = False,
    device: DeviceName = Device.auto,
    imports: Imports = None,
    quiet: Quiet = False,
) -> None:
    """Write a page about a run, or one that compares several: a file for any browser.

    zoo report runs/gcn-cora-20261121-120000
    zoo report runs/gcn-cora-* runs/mlp-cora-* --out compared.html

    It has scores, curves of every seed, the classes, calibration, scores by degree and homophily
    of the nodes, embeddings, and the command that repeats it. A run may still be in training. What
    recipes import is not run, and what needs it is left out, unless --import names it. A page that
    was written before is replaced, any other file is kept.
    """
    from zoo.reports.report import write_report

    import_first(imports)
    tell = (lambda text: None) if quiet else console.remark
    page = write_report(runs, out, device=device.value, layerwise=layerwise, tell=tell)
    console.remark(f"written: {page}")
