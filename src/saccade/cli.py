"""The command line: parses, calls one function for each command, prints."""

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

import saccade
from saccade.checks import FileError, InputError, SaccadeError

app = typer.Typer(
    help="Learns events from sensorimotor sequences without labels, and looks ahead by them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data = typer.Typer(help="Makes, inspects, shows and converts sequences.", no_args_is_help=True)
runs = typer.Typer(
    help="Looks at trainings: which there are, where they stand, how they compare.", no_args_is_help=True
)
bench = typer.Typer(help="Measures speed on this machine, as ratios within one run.", no_args_is_help=True)
app.add_typer(data, name="data")
app.add_typer(runs, name="runs")
app.add_typer(bench, name="bench")

_INTERRUPTED = 130  # what Typer makes of Ctrl-C

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the target if it exists.")]
Format = Annotated[str | None, typer.Option(help="Its format, where the name does not say it; see `data convert -h`.")]


def main() -> None:
    """Runs the command line; a user's mistake becomes one line and exit code 2."""
    try:
        code = app(prog_name="saccade", standalone_mode=False) or 0
        if code == _INTERRUPTED:
            print("saccade: stopped; what was finished is kept, the same command goes on from there", file=sys.stderr)
        sys.exit(code)
    except OSError as error:  # of a path that cannot even be looked at
        print(f"saccade: {error.filename}: {error.strerror or error}; choose another path", file=sys.stderr)
        sys.exit(2)
    except (SaccadeError, typer.TyperException) as error:
        told = error.format_message() if isinstance(error, typer.TyperException) else str(error)
        print(told if "\n" in told else f"saccade: {told}", file=sys.stderr)  # without arguments it is the help
        sys.exit(2)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"saccade {saccade.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


# --- Demo ----------------------------------------------------------------------------------------------------------


@app.command()
def demo(
    out: Annotated[Path, typer.Argument(help="Where everything goes.")] = Path("runs/demo"),
) -> None:
    """The whole way in small: simulates a robot, trains models, judges what they learned, and writes a page to look at.

    Takes some five minutes on two cores, the first time; interrupted, the same command goes on where it was.
    """
    from saccade import machine

    machine.prepare()
    from saccade import demo

    with _Told() as told:
        done = demo.run(out, told)
    _stop_unless(done.finished)
    for table in demo.tables(done.folder):
        Console().print(table)
    _print_reproduced(done)
    print("Two models show how it works, hardly what holds: `saccade reproduce all` does the same with more of them.")


# --- Data ----------------------------------------------------------------------------------------------------------

Count = Annotated[int, typer.Option(min=0, help="Sequences of each kind in this split; 0 leaves it out.")]


@data.command("scripted")
def data_scripted(
    folder: Annotated[Path, typer.Argument(help="Where train, validation and test.safetensors go.")] = Path("data"),
    train: Count = 3200,
    validation: Count = 3200,
    test: Count = 3200,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same bytes.")] = 42,
    table: Annotated[tuple[float, float], typer.Option(help="Lowest and highest table, in metres.")] = (0.3, 0.5),
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; all cores by default.")] = None,
) -> None:
    """Makes scripted robot sequences of three kinds: reach-grasp-transport, point, stretch.

    Interrupted, the same command goes on where it was. The result does not depend on the number of workers.
    """
    from saccade.worlds import dataset

    per_kind = {
        split: count for split, count in (("train", train), ("validation", validation), ("test", test)) if count
    }
    if not per_kind:
        raise InputError("train, validation and test are all 0: wanted sequences in at least one of them")
    with _Told() as told:
        paths = dataset.make(folder, per_kind, seed=seed, table_height=table, workers=workers, progress=told)
    for path in paths.values():
        _print_summary(str(path), _summary(path))


@data.command("apex")
def data_apex(
    folder: Annotated[Path, typer.Argument(help="Where train, validation and test.safetensors go.")] = Path(
        "data/apex"
    ),
    train: Annotated[int, typer.Option(min=0, help="Sequences in this split; 0 leaves it out.")] = 9600,
    validation: Annotated[int, typer.Option(min=0, help="Sequences in this split; 0 leaves it out.")] = 3200,
    test: Annotated[int, typer.Option(min=0, help="Sequences in this split; 0 leaves it out.")] = 3200,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same bytes.")] = 42,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; all cores by default.")] = None,
) -> None:
    """Makes sequences in which a planner brings the object to the goal, by lifting, pushing or flicking it.

    Interrupted, the same command goes on where it was. docs/apex.md says by which rules ways of moving are told apart.
    """
    from saccade import machine

    machine.prepare()
    from saccade.worlds import diverse

    counts = {split: count for split, count in (("train", train), ("validation", validation), ("test", test)) if count}
    if not counts:
        raise InputError("train, validation and test are all 0: wanted sequences in at least one of them")
    with _Told() as told:
        paths = diverse.make(folder, counts, seed=seed, workers=workers, progress=told)
    for path in paths.values():
        _print_summary(str(path), _summary(path))


@data.command("info")
def data_info(
    path: Annotated[Path, typer.Argument(help="A file of sequences, or a folder of such files.")] = Path("data"),
    format: Format = None,
    as_json: AsJson = False,
) -> None:
    """Says what is inside: how many sequences, how long, of which kinds and events, in which ranges."""
    files = sorted(path.glob("*.safetensors")) if path.is_dir() and format is None else []
    summaries = {file.name: _summary(file, format) for file in files or [path]}
    if as_json:
        print(json.dumps(summaries if files else summaries[path.name], indent=2))
        return
    for name, summary in summaries.items():
        _print_summary(name, summary)


@data.command("preview")
def data_preview(
    path: Annotated[Path, typer.Argument(help="A file of Fetch sequences.")],
    out: Annotated[Path, typer.Argument(help="The picture or film to write: .png, .gif or .mp4.")],
    number: Annotated[int, typer.Option(min=0, help="Which sequence, counted from 0 (within its kind if given).")] = 0,
    kind: Annotated[str | None, typer.Option(help="Only sequences of this kind.")] = None,
    format: Format = None,
    overwrite: Overwrite = False,
) -> None:
    """Draws one sequence: the robot, table, object and goal, with the event of each step if it is known."""
    from saccade import formats
    from saccade.worlds import rendering

    chosen = formats.read(path, format)
    if kind is not None:
        chosen = chosen[kind]
    if number >= len(chosen):
        raise InputError(f"number is {number}: there are {len(chosen)} sequences, wanted 0 to {len(chosen) - 1}")
    one = chosen[number]
    events = () if one.event is None else [one.event_names[event] if event >= 0 else "" for event in one.event[0]]
    height = one.columns.get("table_height")
    steps = int(one.lengths[0])
    rendering.save(
        out,
        one.observation[0, : steps + 1],
        None if height is None else float(height[0]),
        captions=events[:steps],
        overwrite=overwrite,
    )
    print(f"{out} shows sequence {number}" + (f" of kind {kind}" if kind else "") + f", {steps} steps")


@data.command("convert")
def data_convert(
    source: Annotated[Path, typer.Argument(help="A file or folder of sequences.")],
    target: Annotated[Path, typer.Argument(help="The file to write.")],
    source_format: Annotated[
        str | None, typer.Option("--from", help="The source's format, if its name misleads.")
    ] = None,
    target_format: Annotated[
        str | None, typer.Option("--to", help="The target's format, if its name misleads.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="A reader's option, as name=value or name=one,two; repeatable.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Reads sequences of any format and writes them in another.

    Reads saccade (.safetensors), npz, csv, parquet, robomimic (.hdf5), minari (a folder), original (the authors'
    folders) and apex (the authors' pickle, of which nothing is executed); writes the first five.
    """
    from saccade import formats

    options: dict[str, Any] = {}
    for given in option or []:
        name, equals, value = given.partition("=")
        if not equals:
            raise InputError(f"option {given!r}: wanted name=value")
        options[name] = int(value) if value.isdigit() else value.split(",") if "," in value else value
    read = formats.read(source, source_format, **options)
    formats.write(read, target, target_format, overwrite=overwrite)
    print(f"{target} holds {len(read)} sequences, {int(read.lengths.sum())} steps")


def _summary(path: Path, format: str | None = None) -> dict[str, Any]:
    """What is in a file, every byte of it checked where the format allows."""
    from saccade import formats, sequences

    read = formats.read(path, format)
    if path.suffix == ".safetensors":
        sequences.verify(path)
    return sequences.summarise(read)


def _print_summary(name: str, summary: dict[str, Any]) -> None:
    console = Console()
    length = summary["length"]
    span = f"{length['min']}" if length["min"] == length["max"] else f"{length['min']} to {length['max']}"
    print(f"{name}: {summary['sequences']} sequences, {summary['steps']} steps, {span} each")
    bad = summary["nan"] + summary["infinite"]
    print(f"NaN or infinite values: {bad}" if bad else "no NaN or infinite values")
    if discarded := summary["origin"].get("discarded"):
        print("discarded tries: " + ", ".join(f"{kind} {count}" for kind, count in discarded.items()))
    if summary["events"]:
        events = list(dict.fromkeys(event for counts in summary["events"].values() for event in counts))
        table = Table("", *summary["events"], title="Sequences, and steps of each event")
        kinds = summary["kinds"] or {}
        counts = [kinds.get(kind, summary["sequences"]) for kind in summary["events"]]
        table.add_row("sequences", *map(str, counts))
        table.add_row("share", *(f"{count / summary['sequences']:.1%}" for count in counts))
        for event in events:
            table.add_row(event, *(str(counts.get(event, "")) for counts in summary["events"].values()))
        console.print(table)
    table = Table("dimension", "unit", "min", "max", "mean", "deviation", title="Ranges")
    for dimensions in summary["dimensions"].values():
        for name, numbers in dimensions.items():
            table.add_row(
                name, numbers["unit"], *(f"{numbers[key]:.4g}" for key in ("min", "max", "mean", "deviation"))
            )
    console.print(table)


# --- Training ------------------------------------------------------------------------------------------------------

Run = Annotated[Path, typer.Argument(help="The run's folder.")]


@app.command()
def train(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="The run's folder: checkpoints, metrics and models go there.")],
    data: Annotated[
        Path | None,
        typer.Option(
            help="A folder with train and validation.safetensors, or one file of any format, a fifth of which is then "
            "held out; `data` by default."
        ),
    ] = None,
    recipe: Annotated[str, typer.Option(help="`fast` (20,000 updates) or `paper` (1.5 million): docs/recipes.md.")] = (
        "fast"
    ),
    change: Annotated[
        list[str] | None, typer.Option("--set", help="A recipe's setting, as updates=5000; repeatable.")
    ] = None,
    preset: Annotated[str, typer.Option(help="The networks' sizes: `paper`, or `original`, the authors' code.")] = (
        "paper"
    ),
    latent: Annotated[int | None, typer.Option(min=1, help="Latent dimensions; the preset's by default.")] = None,
    sparsity: Annotated[
        list[float] | None, typer.Option(help="λ: how costly an open gate is; repeatable; 1 by default.")
    ] = None,
    gru: Annotated[bool, typer.Option("--gru", help="The GRU too, which has no gates.")] = False,
    seeds: Annotated[str, typer.Option(help="Seeds, as 5 or 5-14 or 5,7,9: each is a model of its own.")] = "5",
    per_group: Annotated[
        int | None, typer.Option(min=1, help="Most models in one program; all of the same shapes by default.")
    ] = None,
    engine: Annotated[str, typer.Option(help="`local`, or `ray`: a cluster, see docs/cluster.md.")] = "local",
    address: Annotated[str | None, typer.Option(help="Where the Ray cluster is, as `auto` or host:port.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run as it was begun.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard files too.")] = False,
) -> None:
    """Trains models on sequences: all λ and seeds together, on all cores or a GPU.

    Interrupted, killed or switched off, it goes on where it was: by the same command, or by `saccade train RUN
    --resume`. Models are kept at every evaluation in RUN/models, metrics in RUN/group-*/metrics.csv.
    """
    from saccade import machine, training
    from saccade.checks import check_choice
    from saccade.training import population

    check_choice("engine", engine, ("local", "ray"))
    if address and engine != "ray":
        raise InputError(f"--address {address} without --engine ray: add that, or leave the address out")
    if resume:
        for name in ("recipe", "change", "preset", "latent", "sparsity", "gru", "seeds", "per_group"):
            source = context.get_parameter_source(name)
            if source and source.name == "COMMANDLINE":
                option = {"change": "set"}.get(name, name.replace("_", "-"))
                raise InputError(f"--{option} with --resume: a run goes on as it was begun; begin another to change it")
    if engine == "local":
        machine.prepare()
        chosen = None
    else:
        from saccade.training import cluster

        chosen = cluster.engine(address)
    wanted = []
    if not resume:
        recipe_ = training.recipe(recipe, **dict(_change(given) for given in change or []))
        sizes = population.model_sizes(training.load_data(data or Path("data"))[0], recipe_)
        settings = saccade.preset(preset, **sizes, **({} if latent is None else {"latent": latent}))
        wanted = training.members(
            recipe_, settings=settings, sparsities=sparsity or [1.0], gru=gru, seeds=_numbers("seeds", seeds)
        )
    with _Trained(run, tensorboard) as told, warnings.catch_warnings():
        warnings.showwarning = _warn
        if resume:
            finished = training.resume(run, data=data, engine=chosen, tell=told)
        else:
            finished = training.train(run, wanted, data or Path("data"), per_group=per_group, engine=chosen, tell=told)
    if not finished:
        where = "" if engine == "local" else f" --engine {engine}" + (f" --address {address}" if address else "")
        print(f"saccade: stopped and saved; go on by: saccade train {run} --resume{where}", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    _print_comparison([run])


@runs.command("list")
def runs_list(
    folder: Annotated[Path, typer.Argument(help="Where runs lie, at any depth.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Which runs there are, and how far each is."""
    from saccade import training

    found = [path.parent for path in sorted(folder.rglob("run.json"))]
    states = {str(run): training.status(run) for run in found}
    if as_json:
        print(json.dumps(states, indent=2))
        return
    if not found:
        print(f"no runs in {folder}: `saccade train {folder}/mine` begins one")
        return
    table = Table(Column("run", no_wrap=True), "group", "updates", "state")
    for run, groups in states.items():
        for group in groups:
            table.add_row(run, group["title"], f"{group['update']:,} of {group['updates']:,}", group["state"])
    Console().print(table)


@runs.command("status")
def runs_status(run: Run, as_json: AsJson = False) -> None:
    """Where a run stands: each group's updates, and the newest measures."""
    from saccade import training

    known, groups = training.about(run), training.status(run)
    if as_json:
        print(json.dumps({"run": str(run), "made_by": known["made_by"], "groups": groups}, indent=2))
        return
    print(f"{run}: on {known['data']}, begun by `{known['made_by']['command']}`")
    table = Table("group", "models", "updates", "state")
    for group in groups:
        updates = f"{group['update']:,} of {group['updates']:,}"
        table.add_row(str(group["group"]), group["title"], updates, group["state"])
    Console().print(table)
    _print_comparison([run])


@runs.command("compare")
def runs_compare(run: Annotated[list[Path], typer.Argument(help="Runs' folders.")], as_json: AsJson = False) -> None:
    """The newest measures on validation data, for every recipe and λ: mean and standard deviation over seeds."""
    from saccade import training

    if as_json:
        print(json.dumps([{"run": str(one), **row} for one in run for row in training.compare(one)], indent=2))
        return
    _print_comparison(run)


def _print_comparison(runs: list[Path]) -> None:
    from saccade import training

    rows = [(str(run), row) for run in runs for row in training.compare(run)]
    if not rows:
        return
    measures = dict(zip(training.COMPARED, ("obs MSE", "act MSE", "gates", "skip MSE"), strict=True))
    which = [Column("run", no_wrap=True)] if len(runs) > 1 else []
    table = Table(
        *which,
        Column("models", no_wrap=True),
        "seeds",
        "updates",
        *measures.values(),
        title="mean ± deviation over seeds",
    )
    for run, row in rows:
        memory = f"λ = {row['sparsity']:g}" if row["memory"] == "gatel0rd" else row["memory"].upper()
        numbers = [f"{row[name]['mean']:.2g} ±{row[name]['deviation']:.1g}" if name in row else "" for name in measures]
        models = f"{row['recipe']} {memory}"
        table.add_row(*([run] if which else []), models, str(row["seeds"]), f"{row['update']:,}", *numbers)
    Console().print(table)


def _warn(message: Warning | str, *_: object) -> None:
    print(f"saccade: {message}", file=sys.stderr)


def _change(given: str) -> tuple[str, Any]:
    name, equals, text = given.partition("=")
    if not equals:
        raise InputError(f"--set {given}: wanted name=value, as updates=5000")
    try:
        return name, json.loads({"None": "null", "True": "true", "False": "false"}.get(text, text))
    except ValueError:
        return name, text


def _numbers(name: str, given: str) -> list[int]:
    """Whole numbers from a text such as 5, 5-14 or 5,7,9."""
    try:
        found: list[int] = []
        for part in given.split(","):
            first, dash, last = part.partition("-")
            found += range(int(first), int(last) + 1) if dash else [int(first)]
        return found
    except ValueError as error:
        raise InputError(f"{name} is {given!r}: wanted whole numbers, as 5 or 5-14 or 5,7,9") from error


# --- The paper's studies --------------------------------------------------------------------------------------------

RECIPES = ("recipes", "gaze-recipes")
STUDIES = ("segmentation", "skips", "gaze", "all", *RECIPES)


@app.command()
def reproduce(
    study: Annotated[
        str,
        typer.Argument(
            help="`segmentation`: what gates mark (claims A1 to A5); `skips`: what is foreseen (B1 to B4); `gaze`: "
            "where models look (D1 to D4, E1 to E3); `all` of these; `recipes`, `gaze-recipes`: what gates "
            "and gaze depend on, docs/recipes.md and docs/attention.md."
        ),
    ],
    scale: Annotated[
        str | None,
        typer.Option(
            help="`smoke`: two minutes, says only that everything runs; `quick`: some twelve minutes on two cores, 3 "
            "seeds; `full`: the paper's 10 seeds and all λ, a night. `quick` by default."
        ),
    ] = None,
    recipe: Annotated[str, typer.Option(help="`fast`, or `paper`, 75 times as long: docs/recipes.md.")] = "fast",
    out: Annotated[Path | None, typer.Option(help="Where everything goes; runs/SCALE-RECIPE by default.")] = None,
    keep: Annotated[
        Path | None, typer.Option(help="A folder that tables, figures and claims are copied to, as `results`.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and about how long.")] = False,
) -> None:
    """Reproduces a part of the paper: makes data, trains models, judges the paper's claims, writes a page to look at.

    Interrupted, killed or switched off, the same command goes on where it was; what is finished is not done again.
    `saccade claims` shows the verdicts afterwards, docs/reproduce.md says how they come about.
    """
    from saccade import machine
    from saccade.checks import check_choice

    check_choice("study", study, STUDIES)
    machine.prepare()
    if study in RECIPES:
        if scale is not None or recipe != "fast" or dry_run:
            raise InputError(
                f"{study} is a study of one scale with recipes of its own: wanted --out and --keep at most"
            )
        _reproduce_recipes(study, out or Path("runs") / study, keep)
        return
    from saccade.studies import reproduce as studies

    scale = scale or "quick"
    if dry_run:
        _print_plan(studies.plan(study, scale, recipe, out=out))
        return
    with _Told() as told:
        done = studies.reproduce(study, scale, recipe, out=out, keep=keep, tell=told)
    _stop_unless(done.finished)
    _print_reproduced(done)


def _reproduce_recipes(study: str, out: Path, keep: Path | None) -> None:
    from saccade.studies import gaze_recipes, recipes

    run = {"recipes": recipes.run, "gaze-recipes": gaze_recipes.run}[study]
    with _Told() as told:
        table = run(out, Path("data"), tell=told)
    _stop_unless(table is not None)
    if keep is not None:
        table = recipes.keep(table, keep)
    print(f"{table} has a row for every model; docs/recipes.md and docs/attention.md say what such rows say")


@app.command("claims")
def claims_(
    path: Annotated[Path, typer.Argument(help="A study's folder, or a file of claims.")] = Path("results/claims.json"),
    as_json: AsJson = False,
) -> None:
    """Shows what holds of the paper's claims: verdict, value with its 95 % interval over seeds, and the run behind it.

    `results` holds the evidence that was kept; after a run of your own, name its folder, as runs/quick-fast.
    """
    from saccade.studies import claims

    file = path / "claims.json" if path.is_dir() else path
    if not file.exists():
        raise FileError(f"{file} does not exist: `saccade reproduce all --keep results` makes results/claims.json")
    known = claims.load(file)
    if as_json:
        print(json.dumps(known, indent=2, ensure_ascii=False))
        return
    _print_claims(known)
    print("how each is checked, and what else was measured: --json, or the page report.html of the run")


def _print_claims(known: list[dict[str, Any]]) -> None:
    """All claims with their verdicts; the run behind them in the title if it is the same for all."""
    colours = {"holds": "green", "does not hold": "red", "not yet run": "dim"}
    behind = [f"{one['scale']} {one['recipe']}, {len(one['seeds'])} seeds" if one["seeds"] else "" for one in known]
    several = len(set(behind) - {""}) > 1
    run = "" if several else f" ({max(behind, default='') or 'not yet run'})"
    table = Table("", "claim", "value (95 % interval)", "verdict", *(["run"] if several else []))
    table.title = f"What holds of the paper's claims{run}"
    for claim, run in zip(known, behind, strict=True):
        value = "" if claim["value"] is None else f"{claim['value']:.3g}"
        if claim["low"] is not None:
            value += f" ({claim['low']:.2g} to {claim['high']:.2g})"
        verdict = f"[{colours[claim['verdict']]}]{claim['verdict']}[/]"
        table.add_row(claim["id"], claim["claim"], value, verdict, *([run] if several else []))
    Console().print(table)


def _print_reproduced(done: Any) -> None:
    _print_claims(done.claims)
    took = ", ".join(f"{name} {_time(seconds)}" for name, seconds in done.took.items() if seconds >= 1)
    print(f"time: {took}")
    print(f"the report, to be opened in a browser: {done.report}")


def _print_plan(stages: list[Any]) -> None:
    table = Table("stage", "what", "state", "about", title="What would be done")
    for stage in stages:
        state, about = ("done", "") if stage.done else ("to do", _time(stage.seconds))
        table.add_row(stage.name, stage.what, state, about)
    Console().print(table)
    print(f"about {_time(sum(stage.seconds for stage in stages if not stage.done))} on this machine while it is idle")


def _time(seconds: float) -> str:
    """A duration in the unit that a person would choose."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6_000 else f"{seconds / 3_600:.1f} h"


def _stop_unless(finished: bool) -> None:
    """Ends as Ctrl-C does where training says that it was interrupted."""
    if not finished:
        raise KeyboardInterrupt


# --- Benchmarks ----------------------------------------------------------------------------------------------------


@bench.command("unroll")
def bench_unroll(
    as_json: AsJson = False,
    repeats: Annotated[int, typer.Option(min=1, help="How many times each way is timed, in turns.")] = 100,
) -> None:
    """GateL0RD over a batch of sequences, forward and backward: hand-written gradient against the plain scan."""
    from saccade.benchmarks.unroll import benchmark

    _print_numbers(benchmark(repeats=repeats), as_json)


@bench.command("data")
def bench_data(
    as_json: AsJson = False,
    sequences: Annotated[int, typer.Option(min=1, help="Sequences of each kind in a round.")] = 256,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of making and bare stepping, in turns.")] = 3,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; all cores by default.")] = None,
) -> None:
    """Scripted sequences per second, and the share of the rate at which all cores can step the physics at all."""
    from saccade.benchmarks.data import measure

    _print_numbers(measure(sequences=sequences, rounds=rounds, workers=workers), as_json)


@bench.command("train")
def bench_train(
    as_json: AsJson = False,
    data: Annotated[Path, typer.Option(help="A folder with train and validation.safetensors.")] = Path("data"),
    models: Annotated[str, typer.Option(help="How many models at once, as 1,2,10.")] = "1,2,10",
    presets: Annotated[str, typer.Option(help="Which sizes of networks.")] = "paper,original",
    repeats: Annotated[int, typer.Option(min=1, help="How many times each is timed; the median counts.")] = 3,
) -> None:
    """Milliseconds for an update of a model, and the share of this machine's matrix-product rate that this reaches."""
    from saccade import machine

    machine.prepare()
    from saccade.benchmarks.train import benchmark

    with _Told() as told:
        numbers = benchmark(
            data, models=_numbers("models", models), presets=presets.split(","), repeats=repeats, progress=told
        )
    if as_json:
        print(json.dumps(numbers))
        return
    print(f"{numbers['devices']}: matrix products at {numbers['matmul_gflops']:.0f} GFLOP/s in all")
    table = Table("preset", "models", "skip network", "ms per update and model", "share of rate", "peak MiB")
    for row in numbers["rows"]:
        table.add_row(
            row["preset"],
            str(row["models"]),
            row["skip"],
            f"{row['ms_per_update_per_model']:.2f}",
            f"{row['share_of_matmul_rate']:.2f}",
            f"{row['peak_mib']:.0f}",
        )
    Console().print(table)


@bench.command("gaze")
def bench_gaze(
    as_json: AsJson = False,
    data: Annotated[Path, typer.Option(help="A folder with test.safetensors.")] = Path("data"),
    sequences: Annotated[int, typer.Option(min=1, help="Test sequences in each of the four conditions.")] = 3_200,
) -> None:
    """Seconds to find out where one model looks, its state carried on, against replaying the past at every step."""
    from saccade import machine

    machine.prepare()
    from saccade.benchmarks.gaze import benchmark

    with _Told() as told:
        numbers = benchmark(data, sequences=sequences, progress=told)
    _print_numbers(numbers, as_json)


@bench.command("apex")
def bench_apex(
    as_json: AsJson = False,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of 50 steps for each way.")] = 200,
    ways: Annotated[
        str,
        typer.Option(help="`policy` alone, planner `guided` by it, the same at full effort (`apex`), `planner` alone."),
    ] = ("policy,guided,apex,planner"),
) -> None:
    """Share of episodes in which the object gets to its goal, and the time for a step: policy, planner, or both."""
    from saccade import machine

    machine.prepare()
    from saccade.benchmarks.apex import benchmark

    with _Told() as told:
        numbers = benchmark(episodes, tuple(ways.split(",")), progress=told)
    _print_numbers(numbers, as_json)


def _print_numbers(numbers: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(numbers))
        return
    table = Table("measure", "value")
    for name, value in numbers.items():
        for part, number in value.items() if isinstance(value, dict) else [("", value)]:
            shown = f"{number:.4g}" if isinstance(number, float) else str(number)
            table.add_row(f"{name.replace('_', ' ')} {part}".strip(), shown)
    Console().print(table)


# --- Progress ------------------------------------------------------------------------------------------------------


class _Told:
    """A live line for each thing under way: share, count, rate and time left. Called with name, done, wanted.

    Where there is no terminal, a line every half a minute and one at each thing's end.
    """

    def __init__(self):
        console = Console(stderr=True)
        self._plain, self._told = not console.is_terminal, time.monotonic()
        self._live = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(show_speed=False),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> "_Told":
        return self

    def __exit__(self, *_: object) -> None:
        if self._tasks:
            self._live.stop()

    def __call__(self, name: str, done: int, wanted: int) -> None:
        if not self._plain:
            self._live.start()  # not before there is something to tell
        if name not in self._tasks:
            self._tasks[name] = self._live.add_task(name, total=wanted, rate="")
        task = self._live.tasks[self._tasks[name]]
        rate = f" {task.speed:.3g}/s" if task.speed else ""
        self._live.update(task.id, completed=done, rate=rate)
        if self._plain and (done == wanted or time.monotonic() - self._told > 30):
            self._told = time.monotonic()
            left = f", {_time(task.time_remaining)} left" if task.time_remaining else ""
            print(f"{name}: {done} of {wanted}{rate}{left}", file=sys.stderr, flush=True)


class _Trained:
    """A live line for each group in training: updates, rate, time left, and what the models can do. Called with it."""

    def __init__(self, run: Path, tensorboard: bool):
        console = Console(stderr=True)
        self._live = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[measures]}"),
            console=console,
        )
        self._plain = not console.is_terminal
        self._tasks: dict[str, Any] = {}
        self._told = 0.0
        self._board = None
        if tensorboard:
            from saccade.training.board import Board

            self._board = Board(run)

    def __enter__(self) -> "_Trained":
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if self._tasks:
            self._live.stop()
        if self._board and not error:
            self._board()  # also of a run in which there was nothing left to do

    def __call__(self, at: Any) -> None:
        if self._board:
            self._board()
        if at.group not in self._tasks:
            if not self._plain:
                self._live.start()
            # Counted from here: what an earlier sitting did says nothing of this one's rate.
            self._tasks[at.group] = self._live.add_task(
                at.group, total=at.updates, completed=at.update, rate="", measures=""
            )
        task = self._live.tasks[self._tasks[at.group]]
        self._live.update(task.id, completed=at.update)
        rate = f"{task.speed:.1f} updates/s" if task.speed else ""
        shown = {
            "loss": "loss",
            "skip_loss": "skip",
            "observation_mse": "obs MSE",
            "action_mse": "act MSE",
            "gate_rate": "gates",
        }
        measures = "  ".join(f"{text} {at.measures[name]:.2g}" for name, text in shown.items() if name in at.measures)
        self._live.update(task.id, rate=rate, measures=measures)
        if self._plain and (time.monotonic() - self._told > 30 or at.update == at.updates):
            self._told = time.monotonic()
            left = f", {task.time_remaining:.0f} s left" if task.time_remaining else ""
            print(f"{at.group}: {at.update}/{at.updates} {rate}{left}  {measures}", file=sys.stderr, flush=True)
