"""The paper's studies from nothing to a page: data, training, tables, figures, claims, report.

Every stage goes on where it was interrupted and is not done again while what it was made from stays the same.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from saccade import machine, sequences, training
from saccade.checks import InputError, check_choice
from saccade.files import only_one, provenance, replacing
from saccade.studies import claims, gaze, report, segmentation, skips
from saccade.studies.study import SPLITS, Scale, Study, Tell, begin, checksum, read_json, write_json, write_table
from saccade.worlds import dataset

STUDIES = {"segmentation": segmentation.STEPS, "skips": skips.STEPS, "gaze": gaze.STEPS}


class Stage(NamedTuple):
    """One thing to do."""

    name: str
    what: str
    done: bool
    seconds: float
    """About how long it takes on this machine where it has to be done."""


class Reproduced(NamedTuple):
    """What came of it."""

    folder: Path
    finished: bool
    """False if training was interrupted: the same call goes on with it."""
    claims: list[dict[str, Any]]
    report: Path | None
    took: dict[str, float]
    """Seconds that each stage took, whenever it was done; without data and training where they had been done before."""


def reproduce(
    names: Sequence[str] = ("all",),
    scale: str | Scale = "quick",
    recipe: str = "fast",
    *,
    out: str | os.PathLike | None = None,
    keep: str | os.PathLike | None = None,
    tell: Tell | None = None,
) -> Reproduced:
    """Does the studies `segmentation`, `skips`, `gaze` or `all`, or goes on with them, in `out` (`runs/SCALE-RECIPE`).

    With `keep`, tables, figures and claims are copied to `keep/SCALE-RECIPE`, and claims merged into
    `keep/claims.json`. Call `machine.prepare()` before anything else, so that every core is used.
    """
    study = begin(scale, recipe, out)
    chosen = _chosen(names, study)
    with only_one(study.out, "reproducing"):
        began = time.monotonic()
        _make_data(study, tell)
        if not all(train(study, tell) for train in _trainings(chosen)):
            return Reproduced(study.out, False, [], None, {})
        took = {"data and training": round(time.monotonic() - began, 1)}
        for name in chosen:
            for step in STUDIES[name]:
                _measure(study, name, step, tell)
        figures = _draw(study, tell)
        judged = _judge(study)
        page = _write_report(study, judged, figures)
        if keep is not None:
            _keep(study, judged, Path(keep))
        return Reproduced(study.out, True, judged, page, took | _took(study))


def plan(
    names: Sequence[str] = ("all",),
    scale: str | Scale = "quick",
    recipe: str = "fast",
    *,
    out: str | os.PathLike | None = None,
) -> list[Stage]:
    """What `reproduce` would do, what of it is done already, and about how long the rest takes; nothing is changed."""
    study = begin(scale, recipe, out)
    chosen = _chosen(names, study)
    cores = machine.cores()
    count = study.scale.per_kind * 3
    missing = [split for split in SPLITS if not (study.data / f"{split}.safetensors").exists()]
    stages = [
        Stage("data", f"{count} sequences for each of {', '.join(SPLITS)} in {study.data}", not missing, 0)._replace(
            seconds=len(missing) * count / (PER_CORE["sequences"] * cores)
        )
    ]
    if "segmentation" in chosen or "skips" in chosen:
        models = f"{len(study.members)} models ({_lambdas(study)}; seeds {_span(study.scale.seeds)})"
        stages.append(_training_stage("training", models, study.members, [study.run]))
    if "gaze" in chosen:
        watchers = gaze.watchers(study)
        models = (
            f"{len(watchers)} models with a focus ({', '.join(dict.fromkeys(one.variant.name for one in watchers))})"
        )
        runs = list(dict.fromkeys(gaze.folder(study, one.variant.data) for one in watchers))
        stages.append(_training_stage("gaze training", models, [one.member for one in watchers], runs))
    known = {stage.name for stage in stages if stage.done and not missing}
    for name in chosen:
        trained = ("gaze training" if name == "gaze" else "training") in known
        for step, (_, outputs) in STUDIES[name].items():
            done = trained and study.is_done(step, _made_from(study, name, step))
            stages.append(Stage(step, ", ".join(outputs), done, _about(study, step) / cores))
    drawn = all(stage.done for stage in stages) and study.is_done("figures", _drawn_from(study))
    return [*stages, Stage("figures, claims, report", f"in {study.out}", drawn, ABOUT["figures"])]


def _training_stage(name: str, what: str, members: Sequence[training.Member], runs: Sequence[Path]) -> Stage:
    """The training of all these models, and about how long what is left of it takes."""
    updates = members[0].recipe.updates
    states = [state for run in runs if (run / "run.json").exists() for state in training.status(run)]
    groups = len({one.shape for one in members})
    left = sum(state["updates"] - state["update"] for state in states) + updates * max(0, groups - len(states))
    share = left / (updates * max(groups, len(states)))
    every = [
        PER_CORE[{None: "full update", 0: "update"}.get(one.recipe.skip_steps, "sampled update")] for one in members
    ]
    seconds = COMPILING * groups * (share > 0) + share * updates * sum(every) / machine.cores()
    return Stage(name, f"{what}, {updates} updates each in {runs[0]}", share == 0, seconds)


PER_CORE = {"sequences": 85, "update": 0.006, "sampled update": 0.013, "full update": 0.035}
"""What one core of a 2026 server manages: sequences a second, and seconds for an update of one model, without the skip
network, with some of its steps and with all of them."""
COMPILING = 25.0
"""Seconds for each kind of model."""
ABOUT = {"figures": 30.0, "prediction": 4.0, "gates": 2.0, "skip predictions": 0.5, "rivals": 25.0, "gaze": 70.0}
"""Seconds of one core: for a final model over 9,600 sequences, for a rival on one input at one noise level, for all
checkpoints of a model that looks around."""


def _about(study: Study, step: str) -> float:
    """Seconds of one core that a step takes, roughly."""
    size = study.scale.per_kind / 3_200
    if step == "rivals":
        wanted = study.scale.rivalry
        slow = [method for method in wanted.methods if method != "random"]
        share = (wanted.training or 300) / 300
        return ABOUT["rivals"] * share * len(slow) * len(wanted.inputs) * len(wanted.levels)
    if step == "skip predictions":
        points = len(study.shown) * (len(study.curve) * study.scale.curve_on / 9_600 + size)
        return 10 + 20 * ABOUT[step] * points * 0.25
    if step in ("prediction", "gates"):
        return 10 + ABOUT[step] * size * len(study.members)
    if step.startswith("gaze"):
        return 10 + ABOUT[step] * size * len(gaze.watchers(study)) if step in ABOUT else 5.0
    return 5.0


def _lambdas(study: Study) -> str:
    sparsities = [f"{sparsity:g}" for sparsity in study.scale.sparsities]
    return "λ " + ", ".join([*sparsities, "GRU"] if study.scale.gru else sparsities)


def _span(seeds: Sequence[int]) -> str:
    return f"{seeds[0]}–{seeds[-1]}" if len(seeds) > 1 else str(seeds[0])


def _chosen(names: Sequence[str], study: Study) -> list[str]:
    """The studies meant, in their order; all of them are those that the scale has models for."""
    if isinstance(names, str):
        names = (names,)
    for name in names:
        check_choice("study", name, (*STUDIES, "all"))
    if not names:
        raise InputError(f"no study is named: wanted some of {', '.join(STUDIES)}, or all")
    has = {name: name != "gaze" or study.scale.gaze != 0 for name in STUDIES}
    for name in names:
        if not has.get(name, True):
            raise InputError(f"the scale {study.scale.name} trains no models for {name}: choose another scale")
    return [name for name in STUDIES if name in names or ("all" in names and has[name])]


# --- Stages --------------------------------------------------------------------------------------------------------


def _make_data(study: Study, tell: Tell | None) -> None:
    per_kind = dict.fromkeys(SPLITS, study.scale.per_kind)
    dataset.make(study.data, per_kind, progress=(lambda split, *of: tell(f"data: {split}", *of)) if tell else None)


def _trainings(chosen: Sequence[str]) -> list[Callable[[Study, Tell | None], bool]]:
    """What trains the models that these studies look into."""
    wanted = []
    if "segmentation" in chosen or "skips" in chosen:
        wanted.append(_train)
    if "gaze" in chosen:
        wanted.append(gaze.train)
    return wanted


def _train(study: Study, tell: Tell | None) -> bool:
    told = (lambda at: tell(at.group, at.update, at.updates)) if tell else None
    return training.train(study.run, study.members, study.data, tell=told)


def _measure(study: Study, name: str, step: str, tell: Tell | None) -> None:
    """One step of a study, and a note of where its tables came from."""
    function, outputs = STUDIES[name][step]
    made_from = _made_from(study, name, step)
    if study.is_done(step, made_from):
        return
    began = time.monotonic()
    for file, content in function(study, tell).items():
        (write_table if file.endswith(".csv") else write_json)(study.tables / file, content)
    _write_provenance(study, outputs, name, time.monotonic() - began)
    study.record(step, made_from, [study.tables / file for file in outputs], time.monotonic() - began)


def _made_from(study: Study, name: str, step: str) -> dict[str, Any]:
    """What a step's tables depend on."""
    if name == "gaze":
        return gaze.made_from(study)
    return study.made_from | ({"rivalry": asdict(study.scale.rivalry)} if step == "rivals" else {})


def _write_provenance(study: Study, outputs: Iterable[str], name: str, seconds: float) -> None:
    """Writes `provenance.json`: settings, seeds, versions, device, and for each table its command, date and time."""
    path = study.tables / "provenance.json"
    known = read_json(path)["tables"] if path.exists() else {}
    made = provenance()
    command = made.pop("command")
    entry = {
        "study": name,
        "command": command,
        "date": date.today().isoformat(),
        "seconds": round(seconds, 1),
        "device": machine.devices(),
        "versions": made,
    }
    run = training.about(study.run if name != "gaze" else gaze.folder(study, "plain"))
    entry["training"] = run["made_by"]
    write_json(
        path,
        {
            "scale": asdict(study.scale),
            "recipe": asdict(study.recipe),
            "settings": asdict(study.members[0].settings),
            "seeds": list(study.scale.seeds),
            "data": {
                "folder": str(study.data),
                "test": sequences.checksum(study.test),
                "training": run["data_checksum"],
            },
            "tables": known | dict.fromkeys(outputs, entry),
        },
        indent=1,
    )


def _draw(study: Study, tell: Tell | None) -> list[report.Figure]:
    """All figures, drawn if any table has changed."""
    from saccade import plots  # its library is large, and not wanted before

    folder = study.out / "figures"
    listing = folder / "figures.json"
    made_from = _drawn_from(study)
    if not study.is_done("figures", made_from):
        began = time.monotonic()
        if tell:
            tell("figures", 0, 1)
        figures = plots.draw(study.tables, folder)
        about = [
            {
                "title": one.title,
                "caption": one.caption,
                "png": one.png.name,
                "pdf": None if one.pdf is None else one.pdf.name,
            }
            for one in figures
        ]
        write_json(listing, about, indent=1)
        if tell:
            tell("figures", 1, 1)
        outputs = [listing, *(path for one in figures for path in (one.png, one.pdf) if path is not None)]
        study.record("figures", made_from, outputs, time.monotonic() - began)
    return [
        report.Figure(
            one["title"], one["caption"], folder / one["png"], None if one["pdf"] is None else folder / one["pdf"]
        )
        for one in read_json(listing)
    ]


def _drawn_from(study: Study) -> dict[str, Any]:
    """What figures depend on: all tables, but not when and by which command these were made."""
    return {"tables": checksum(path for path in _tables(study) if path.name != "provenance.json")}


def _judge(study: Study) -> list[dict[str, Any]]:
    """All claims; judging takes no time, so it is always done."""
    judged = claims.judge(study.tables)
    claims.save(judged, study.out / "claims.json")
    return judged


def _write_report(study: Study, judged: list[dict[str, Any]], figures: list[report.Figure]) -> Path:
    """The page, written if anything on it has changed."""
    page = study.out / "report.html"
    shown = [path for figure in figures for path in (figure.png, figure.pdf) if path is not None]
    made_from = {"files": checksum([*_tables(study), study.out / "claims.json", *shown])}
    if not study.is_done("report", made_from):
        began = time.monotonic()
        examples, watched = (study.tables / f"{name}.json" for name in ("examples", "gaze_examples"))
        report.write(
            page,
            title=f"saccade: learned events and what they foresee ({study.scale.name}, {study.recipe.name})",
            claims=judged,
            figures=figures,
            episodes=read_json(examples) if examples.exists() else [],
            gaze=read_json(watched) if watched.exists() else [],
            settings=read_json(study.tables / "provenance.json"),
        )
        study.record("report", made_from, [page], time.monotonic() - began)
    return page


def _keep(study: Study, judged: list[dict[str, Any]], keep: Path) -> None:
    """Copies what is small enough to be kept for good, and merges claims with those known there."""
    place = keep / f"{study.scale.name}-{study.recipe.name}"
    for folder in ("tables", "figures"):
        (place / folder).mkdir(parents=True, exist_ok=True)
        for path in sorted((study.out / folder).iterdir()):
            if path.suffix in (".csv", ".json", ".png", ".pdf") and not path.name.startswith("."):
                with replacing(place / folder / path.name, overwrite=True) as temporary:
                    shutil.copyfile(path, temporary)
    claims.save(judged, place / "claims.json")
    known = keep / "claims.json"
    claims.save(claims.merge(claims.load(known) if known.exists() else [], judged), known)


def _tables(study: Study) -> list[Path]:
    return [path for path in sorted(study.tables.iterdir()) if path.suffix in (".csv", ".json") and path.name[0] != "."]


def _took(study: Study) -> dict[str, float]:
    """How long the stages took that are written down."""
    path = study.out / "stages.json"
    return {name: one["seconds"] for name, one in read_json(path).items()} if path.exists() else {}
