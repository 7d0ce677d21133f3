"""The figures of the studies, drawn from the tidy tables that a study leaves in a folder.

`draw` makes every figure whose table is there, as PDF and PNG, with a title and a caption. Each figure is one function
from one table (see FIGURES); `over_seeds` and `plot_band` are there for further studies. A λ has the same colour
in every figure; every colour also has a line style and a marker of its own, for print without colour.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, Polygon, Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator
from scipy.special import stdtrit

from saccade.checks import FileError
from saccade.files import replacing
from saccade.studies import report
from saccade.worlds.fetch import ACTION, GOAL, HAND, OBJECT
from saccade.worlds.rendering import GOAL_RADIUS, RESTING
from saccade.worlds.scripted import KINDS

# --- Style ---------------------------------------------------------------------------------------------------------

COLUMN, PAGE = 3.5, 7.16
"""Widths in inches of one column and of both, in a journal of two columns."""
PIXELS_PER_INCH = 300
STYLE = {
    "font.family": "DejaVu Sans",  # comes with Matplotlib, so that pictures are the same everywhere
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlepad": 4,
    "axes.labelpad": 2,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "ytick.minor.size": 1.5,
    "ytick.minor.width": 0.4,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "legend.columnspacing": 1.4,
    "legend.handletextpad": 0.5,
    "legend.borderaxespad": 0,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    "pdf.fonttype": 42,
}

BLACK, GREY, LIGHT = "#000000", "#767676", "#ececec"
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"  # Okabe and Ito's colours
BLUE, VERMILLION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
PALE_GREEN, PALE_VERMILLION = "#d9efe8", "#fae2d1"  # of what predictions are drawn over

Dash = Literal["-"] | tuple[float, tuple[float, ...]]
DOTS, SHORT, LONG, DASH_DOT = (0, (1, 1.2)), (0, (3, 1.2)), (0, (6, 1.5)), (0, (5, 1.3, 1, 1.3))
DASH_DOT_DOT = (0, (5, 1.2, 1, 1.2, 1, 1.2))


class Look(NamedTuple):
    """How something is drawn wherever it appears."""

    colour: str
    dash: Dash
    marker: str


GRU = Look(BLACK, DASH_DOT_DOT, "x")
SPARSITIES = {
    0.0: Look(ORANGE, DOTS, "v"),
    0.1: Look(GREEN, SHORT, "s"),
    1.0: Look(BLUE, "-", "o"),
    5.0: Look(PURPLE, DASH_DOT, "D"),
    10.0: Look(VERMILLION, LONG, "^"),
}
"""The paper's λ; others are given the spare looks in their order."""
SPARE = (
    Look(SKY, LONG, "P"),
    Look(GREY, SHORT, "X"),
    Look(YELLOW, "-", "<"),
    Look(VERMILLION, DOTS, ">"),
    Look(GREEN, DASH_DOT, "p"),
    Look(BLUE, LONG, "h"),
)
ENTITIES = {"hand": Look(BLUE, "-", "o"), "object": Look(GREEN, SHORT, "s"), "goal": Look(VERMILLION, DASH_DOT, "^")}
RIVALS = {
    "kernel change points": Look(VERMILLION, SHORT, "s"),
    "PELT": Look(GREEN, LONG, "^"),
    "GSBS": Look(PURPLE, DASH_DOT, "D"),
    "hidden Markov": Look(ORANGE, "-", "v"),
    "surprise peaks": GRU,  # it is the GRU's surprise
    "random": Look(GREY, DOTS, "+"),
}
KIND_LOOKS: dict[str, Look] = dict(
    zip(KINDS, (Look(BLACK, "-", "o"), Look(BLACK, SHORT, "s"), Look(GREY, DOTS, "^")), strict=True)
)
KIND_TITLES: dict[str, str] = dict(zip(KINDS, ("Reach–grasp–transport", "Pointing", "Stretching"), strict=True))
VARIANTS = {
    "learned": Look(BLUE, "-", "o"),
    "true": Look(GREEN, SHORT, "s"),
    "every6": Look(VERMILLION, DASH_DOT, "^"),
    "cue": Look(ORANGE, LONG, "D"),
    "rare": Look(PURPLE, "-", "v"),
    "common": Look(BLACK, SHORT, "P"),
}
"""The models of the gaze study, by what was different in their training."""
MAIN = 1.0
"""The λ that the paper goes on with: what is shown of one λ is shown of the one nearest to it."""
TABLE = np.array([[1.05, 0.4], [1.55, 0.4], [1.55, 1.1], [1.05, 1.1]])
"""Corners of Fetch's table in metres, x and y."""

Table = dict[str, np.ndarray]
Looks = Mapping[float, Look]


@dataclass(frozen=True)
class Drawing:
    """A figure that is drawn but not yet written, with what it shows."""

    name: str
    figure: Figure
    title: str
    caption: str


# --- All figures ---------------------------------------------------------------------------------------------------


def draw(tables: Path, figures: Path, *, tell: Callable[[str], None] | None = None) -> list[report.Figure]:
    """Every figure whose table is in the folder `tables`, written to the folder `figures` as PDF and PNG.

    The same tables give the same bytes. A figure that is there already is written anew; `tell` hears of each.
    """
    tables, figures = Path(tables), Path(figures)
    if not tables.is_dir():
        raise FileError(f"{tables} is no folder: wanted the folder of a study's tables")
    found = {file: _read(tables / file) for file in dict.fromkeys(FIGURES.values()) if (tables / file).exists()}
    looks = looks_of(table["sparsity"] for table in found.values() if isinstance(table, dict) and "sparsity" in table)
    written = []
    with style.context(STYLE, after_reset=True):  # whatever a person's own settings say
        for function, file in FIGURES.items():
            for drawing in function(found[file], looks) if file in found and _rows(found[file]) else ():
                written.append(write(drawing, figures))
                if tell is not None:
                    tell(f"drew {drawing.name}: {drawing.title}")
    return written


def write(drawing: Drawing, folder: Path) -> report.Figure:
    """A drawing as PDF, for print, and PNG, for the screen, each in one step."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder} cannot be made: {error.strerror or error}; choose another folder") from error
    png, pdf = (folder / f"{drawing.name}.{kind}" for kind in ("png", "pdf"))
    FigureCanvasAgg(drawing.figure)
    # Neither dates nor versions, so that the same picture is the same file.
    with replacing(png, overwrite=True) as temporary:
        drawing.figure.savefig(temporary, format="png", dpi=PIXELS_PER_INCH, metadata={"Software": None})
    about = {"Title": drawing.title, "CreationDate": None, "Creator": None, "Producer": None}
    with replacing(pdf, overwrite=True) as temporary:
        drawing.figure.savefig(temporary, format="pdf", metadata=about)
    return report.Figure(drawing.title, drawing.caption, png, pdf)


def looks_of(sparsities: Iterable[np.ndarray]) -> dict[float, Look]:
    """A look for every λ there is: the paper's have theirs, others the spare ones in their order."""
    given = {float(one) for array in sparsities for one in np.unique(array[np.isfinite(array)])}
    spare = cycle(SPARE)
    return {one: SPARSITIES.get(one) or next(spare) for one in sorted(given)}


def _rows(table: Table | list) -> int:
    return len(table) if isinstance(table, list) else len(next(iter(table.values())))


# --- Figures over training -----------------------------------------------------------------------------------------


def training(table: Table, looks: Looks) -> Iterator[Drawing]:
    """Errors of observations and actions and the gate rate over training, for every λ and the GRU."""
    recipes = _unique(table["recipe"])
    panels = {
        "observation_mse": "Error of observations (MSE)",
        "action_mse": "Error of actions (MSE)",
        "gate_rate": "Gate rate",
    }
    for recipe in recipes:
        rows = _where(table, recipe=recipe)
        figure = Figure(figsize=(PAGE, 2.3), layout="constrained")
        axes = _row_of_axes(figure, len(panels))
        handles = {}
        for ax, letter, (measure, title) in zip(axes, "abc", panels.items(), strict=True):
            bands = []
            for number, (name, look, series) in enumerate(_memories(rows, looks)):
                if measure == "gate_rate" and look is GRU:  # it has no gates: its rate is 1 by definition
                    continue
                band = over_seeds(series, "update", measure)
                bands.append(band)
                handles[name] = plot_band(ax, band, look, offset=number)
            _log_axis(ax, bands)
            _updates_axis(ax, rows["update"])
            _name(ax, letter, title)
        low, high = axes[2].get_ylim()
        if low <= 1e-2 <= high:
            axes[2].axhline(1e-2, color=GREY, linewidth=0.6, zorder=0)
            axes[2].annotate(
                "10⁻²",
                (1, 1e-2),
                (2, 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                va="center",
                color=GREY,
                fontsize=7,
                annotation_clip=False,
            )
        figure.legend(handles.values(), handles, loc="outside upper center", ncols=len(handles))
        yield Drawing(
            "training" if len(recipes) == 1 else f"training_{recipe}",
            figure,
            "Prediction error and gate rate over training" + (f", {recipe} recipe" if len(recipes) > 1 else ""),
            "Error of predicted observations (a) and actions (b) on validation sequences, and the share of gates that "
            f"open (c), over training, for each sparsity λ{' and for a GRU, which has no gates' * ('GRU' in handles)}. "
            "Grey line: a rate of 0.01, which is four opened dimensions in a sequence of 25 steps and 16 dimensions. "
            + _seeds(rows)
            + _shading(rows),
        )


def skip_distances(table: Table, looks: Looks) -> Iterator[Drawing]:
    """How far the skip-predicted hand is from hand, object and goal, over training (claims B1 to B3)."""
    main = _main(table)
    rows = _where(table, sparsity=main, from_step=2, predicted="hand")
    kinds = _kinds(rows["kind"])
    if not kinds:
        return
    figure = Figure(figsize=(PAGE, 2.2), layout="constrained")
    axes = _row_of_axes(figure, len(kinds), sharey=True)
    for ax, letter, kind in zip(axes, "abc", kinds, strict=True):
        _distance_lines(ax, _where(rows, kind=kind))
        _name(ax, letter, {"reach-grasp-transport": "Reaching"}.get(kind, KIND_TITLES[kind]))
    _leave_out_birth(axes[0], rows)
    axes[0].set_ylabel("Distance of predicted hand (m)")
    _legend_of_entities(figure, "to ")
    yield Drawing(
        "skip_distances",
        figure,
        "Where the skip network expects the hand at the next event boundary",
        "Distance between the position of the hand that is predicted at step 2 for the next event boundary, and where "
        f"hand, object and goal are at step 2, over training, for each kind of sequence; λ = {main:g}. {BIRTH} "
        + _seeds(rows)
        + _shading(rows),
    )


def skip_distances_of_others(table: Table, looks: Looks) -> Iterator[Drawing]:
    """How far skip-predicted objects and goals are from object and goal, over training (claim B4)."""
    main = _main(table)
    rows = _where(table, sparsity=main)
    rows = _subset(rows, (rows["predicted"] == "object") | (rows["predicted"] == "goal"))
    columns = [(kind, 2) for kind in _kinds(_where(rows, from_step=2)["kind"])]
    columns += [(kind, 12) for kind in _kinds(_where(rows, from_step=12)["kind"]) if kind == KINDS[0]]
    predicted = [one for one in ("object", "goal") if one in rows["predicted"]]
    if not columns:
        return
    figure = Figure(figsize=(PAGE, 0.5 + 1.65 * len(predicted)), layout="constrained")
    axes = figure.subplots(len(predicted), len(columns), sharex=True, sharey=True, squeeze=False)
    letters = iter("abcdefgh")
    for line, what in zip(axes, predicted, strict=True):
        for ax, (kind, step) in zip(line, columns, strict=True):
            _distance_lines(ax, _where(rows, predicted=what, kind=kind, from_step=step))
            _name(ax, next(letters), _moment(kind, step) if what == predicted[0] else "")
            if what != predicted[-1]:
                ax.set_xlabel("")
        line[0].set_ylabel(f"Distance of\npredicted {what} (m)")
    _leave_out_birth(axes[0, 0], rows)
    _legend_of_entities(figure, "to ")
    yield Drawing(
        "skip_distances_of_others",
        figure,
        "Where the skip network expects object and goal at the next event boundary",
        "Distance between the predicted position of the object (top) or the goal (bottom) at the next event boundary, "
        "and where hand, object and goal are when it is predicted, over training: at step 2 of each kind of sequence, "
        f"and at step 12 of reach–grasp–transport, when the object is carried; λ = {main:g}. {BIRTH} "
        + _seeds(rows)
        + _shading(rows),
    )


def skip_spread(table: Table, looks: Looks) -> Iterator[Drawing]:
    """How much the skip predictions of different seeds differ, over training, for each kind (claim B3)."""
    main = _main(table)
    rows = _where(table, sparsity=main)
    figure = Figure(figsize=(COLUMN, 2.1), layout="constrained")
    ax = figure.subplots()
    names = []
    for kind in _kinds(rows["kind"]):
        series = _where(rows, kind=kind)
        updates = np.unique(series["update"])
        mean = np.array([_mean(series["spread"][series["update"] == update]) for update in updates])
        look = KIND_LOOKS[kind]
        ax.plot(updates, mean, color=look.colour, linestyle=look.dash)
        if np.isfinite(mean[-1]):
            names.append((float(mean[-1]), KIND_TITLES[kind].replace("Reach–grasp–transport", "Reaching"), look.colour))
    ax.set_ylim(bottom=0)
    _updates_axis(ax, rows["update"])
    ax.set_ylabel("Spread between seeds (m)")
    _names_at_the_end(ax, names)
    yield Drawing(
        "skip_spread",
        figure,
        "How much skip predictions differ between seeds",
        "Spread between seeds of the hand's position that is predicted for the next event boundary, over training, for "
        f"each kind of sequence; λ = {main:g}. A line is one number for all seeds together, hence no shading.",
    )


# --- Figures of gaze -----------------------------------------------------------------------------------------------

INFANTS = {"hand": (200.8, 82.0), "claw": (9.8, 85.3)}
"""Mean gaze arrival in milliseconds with its standard error, positive where gaze comes first (Adam et al. 2016)."""
AGES = (("6 months", "tracks", "tracks"), ("7 months", "tracks", "predicts"), ("11 months", "predicts", "predicts"))
"""Infants' gaze at a grasping hand, without and with a salient action effect (Adam & Elsner 2020)."""
CONDITIONS = {"intra": "Reach, next step", "inter": "Reach, next event", "both": "Reach, both", "point": "Point, both"}
"""What is watched, and which uncertainties of the hand the choice of a focus goes by."""


def gaze(table: Table, looks: Looks) -> Iterator[Drawing]:
    """When models first look at hand, object and goal, over training, beside when infants do (claims D1 to D4)."""
    table = _where(table, variant="learned")
    sparsities = np.unique(table["sparsity"]).tolist()
    for sparsity in sparsities:
        rows = _where(table, sparsity=sparsity)
        figure = Figure(figsize=(PAGE, 3.9), layout="constrained")
        grid = figure.add_gridspec(2, 3, width_ratios=(1, 1, 0.85))
        first = figure.add_subplot(grid[0, 0])
        axes = [first, *(figure.add_subplot(grid[place], sharey=first) for place in ((0, 1), (1, 0), (1, 1)))]
        for ax, letter, (condition, title) in zip(axes, "abcd", CONDITIONS.items(), strict=True):
            for number, (entity, look) in enumerate(ENTITIES.items()):
                band = over_seeds(_where(rows, condition=condition, entity=entity), "update", "lead")
                if len(band.x):
                    plot_band(ax, band, look, half=band.error, offset=number)
            _updates_axis(ax, rows["update"])
            _name(ax, letter, title)
        for ax in axes:
            _event_end(ax)
        for ax in axes[::2]:
            ax.set_ylabel("First look − event's end (steps)")
        _infants_arrival(figure.add_subplot(grid[0, 2]))
        _infants_ages(figure.add_subplot(grid[1, 2]))
        _legend_of_entities(figure, "look at ")
        yield Drawing(
            "gaze" if len(sparsities) == 1 else f"gaze_{sparsity:g}",
            figure,
            f"When models and infants look where, {_lambda(sparsity)}",
            "Step at which hand, object and goal are first attended, minus the step at which the event ends (dashed; "
            "reaching: the hand is at the object; pointing: at the goal), over training. The focus is chosen to make "
            "the hand's position most certain at the next step (a), at the next event boundary (b) or both (c, d). "
            "What is never attended counts as attended at the last step. "
            + _seeds(rows)
            + _errors(rows)
            + " Infants: (e) mean gaze arrival at the goal of a human hand and of a mechanical claw, in infants of "
            "about a year, with standard errors (Adam et al. 2016); positive is before the hand, so the axis runs "
            "downwards to be read like the others. (f) How infants watch a grasping hand, by age and by whether the "
            "action has a salient effect (Adam & Elsner 2020, PLoS ONE 15, e0240165): their gaze tracks the hand, or "
            "predicts where it goes.",
        )


def gaze_compared(table: Table, looks: Looks) -> Iterator[Drawing]:
    """How much of goal-predictive gaze is owed to learned events, cues and familiarity (claims E1 to E3)."""
    table = _subset(table, np.isin(table["variant"], list(VARIANTS)))
    sparsities = np.unique(table["sparsity"][table["variant"] != "learned"]).tolist()
    for sparsity in sparsities:
        rows = _where(table, sparsity=sparsity)
        columns = {
            title: lines
            for title, lines in _COMPARED.items()
            if any(variant in rows["variant"] and variant != "learned" for variant, _ in lines)
        }
        measures = {
            pair: label
            for pair, label in _MEASURES.items()
            if len(_where(rows, condition=pair[0], entity=pair[1])["lead"])
        }
        if not measures:
            continue
        figure = Figure(figsize=(PAGE, 0.9 + 1.45 * len(measures)), layout="constrained")
        axes = figure.subplots(len(measures), len(columns), sharex=True, sharey=True, squeeze=False)
        letters = iter("abcdefghi")
        for row, ((condition, entity), label) in enumerate(measures.items()):
            for ax, (title, lines) in zip(axes[row], columns.items(), strict=True):
                for number, (variant, agent) in enumerate(lines):
                    # The claw is watched reaching, both uncertainties counting, and only so.
                    watched = condition if agent == "hand" else {"both": "claw"}.get(condition, "")
                    some = _where(rows, variant=variant, condition=watched, entity=entity)
                    band = over_seeds(some, "update", "lead")
                    if len(band.x):
                        plot_band(ax, band, _compared_look(variant, agent), half=band.error, offset=number)
                _updates_axis(ax, rows["update"])
                _name(ax, next(letters), title if row == 0 else "")
                ax.label_outer()
            axes[row, 0].set_ylabel(f"{label}\n− event's end (steps)")
        for place, ax in np.ndenumerate(axes):
            _event_end(ax, named=place[1] == 0)
        for ax, lines in zip(axes[0], columns.values(), strict=True):
            keys = [
                Line2D([], [], color=look.colour, linestyle=look.dash, marker=look.marker, label=name)
                for variant, agent in lines
                if variant in rows["variant"] and (agent == "hand" or "claw" in rows["condition"])
                for look, name in [(_compared_look(variant, agent), _compared_name(variant, agent))]
            ]
            ax.legend(handles=keys, loc="lower left", bbox_to_anchor=(0.08, 1.16))
        yield Drawing(
            "gaze_compared" if len(sparsities) == 1 else f"gaze_compared_{sparsity:g}",
            figure,
            f"What goal-predictive gaze is owed to, {_lambda(sparsity)}",
            "Step at which the goal of the event is first attended, minus the step at which the event ends (dashed), "
            "over training: the object in reaching, both uncertainties counting or that about the next event alone, "
            "and the goal in pointing. "
            + " ".join(_COMPARED_WORDS[title] for title in columns)
            + " What is never attended counts as attended at the last step. "
            + _seeds(rows)
            + _errors(rows),
        )


_MEASURES = {
    ("both", "object"): "Reach, both:\nfirst look at object",
    ("inter", "object"): "Reach, next event:\nfirst look at object",
    ("point", "goal"): "Point, both:\nfirst look at goal",
}
_COMPARED: dict[str, tuple[tuple[str, str], ...]] = {
    "Events": (("learned", "hand"), ("true", "hand"), ("every6", "hand")),
    "Cue": (("learned", "hand"), ("cue", "hand")),
    "Familiarity": (("rare", "hand"), ("rare", "claw"), ("common", "hand"), ("common", "claw")),
}
"""Which models are compared, and who they watch."""
_COMPARED_WORDS = {
    "Events": "Events: the skip network looks ahead to learned boundaries, to true ones, or by six steps.",
    "Cue": "Cue: without and with a salient signal at event boundaries in training.",
    "Familiarity": "Familiarity: a claw, which moves differently, is seen rarely or commonly in training; hand or claw "
    "is then watched.",
}
_NAMES = {
    "learned": "learned boundaries",
    "true": "true boundaries",
    "every6": "every six steps",
    "cue": "with cue",
    "rare": "claw rare",
    "common": "claw common",
}


def _compared_look(variant: str, agent: str) -> Look:
    """That of the variant, dotted where the claw is watched."""
    look = VARIANTS[variant]
    return look._replace(dash=DOTS, marker="x") if agent == "claw" else look


def _compared_name(variant: str, agent: str) -> str:
    return _NAMES[variant] + f", {agent} watched" * (variant in ("rare", "common"))


def _event_end(ax: Axes, *, named: bool = True) -> None:
    """A dashed line where the event ends, and names of the sides: before it, looking is predictive."""
    low, high = ax.get_ylim()
    if low < high:
        ax.set_ylim(min(low, -0.25 * high), max(high, -0.25 * low))  # neither side too narrow for its name
    ax.axhline(0, color=BLACK, linewidth=0.8, linestyle=SHORT, zorder=1)
    for side, text in ((-1, "before"), (1, "after")) if named else ():
        ax.annotate(
            text,
            (0.985, 0),
            (0, 2.5 * side),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="bottom" if side > 0 else "top",
            color=GREY,
            fontsize=6.5,
            zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.3},
        )


def _infants_arrival(ax: Axes) -> None:
    """Infants' published gaze arrival at the goal of a hand and of a claw, with "before" below, as for models."""
    for place, (mean, error) in enumerate(INFANTS.values()):
        ax.errorbar(place, mean, yerr=error, fmt="o", color=BLACK, elinewidth=1, capsize=2)
    ax.set_xticks(range(len(INFANTS)), list(INFANTS))
    ax.set_xlim(-0.6, len(INFANTS) - 0.4)
    ax.tick_params(axis="x", length=0)
    ax.set_ylim(350, -150)
    _event_end(ax)
    ax.set_ylabel("Gaze arrival (ms)")
    _name(ax, "e", "Infants, about a year")


def _infants_ages(ax: Axes) -> None:
    """What infants' gaze does at three ages, in words."""
    ax.set_axis_off()
    ax.set_xlim(-0.9, 2)
    ax.set_ylim(len(AGES) + 0.1, -0.9)
    for column, name in enumerate(("no effect", "effect")):
        ax.text(column + 0.5, -0.12, name, ha="center", va="bottom", fontsize=7)
    for row, (age, *cells) in enumerate(AGES):
        ax.text(-0.06, row + 0.5, age, ha="right", va="center", fontsize=7)
        for column, says in enumerate(cells):
            colour = PALE_GREEN if says == "predicts" else LIGHT
            ax.add_patch(Rectangle((column + 0.03, row + 0.05), 0.94, 0.9, facecolor=colour, linewidth=0))
            ax.text(column + 0.5, row + 0.5, says, ha="center", va="center", fontsize=7)
    _name(ax, "f", "Infants, grasping hand")


def gaze_calibration(table: Table, looks: Looks) -> Iterator[Drawing]:
    """Whether both networks' variances can be believed, by attended entity and dimension."""
    every = {
        (variant, sparsity): _where(table, variant=variant, sparsity=sparsity)
        for variant in VARIANTS
        for sparsity in np.unique(_where(table, variant=variant)["sparsity"]).tolist()
    }
    learned = {_lambda(sparsity): rows for (variant, sparsity), rows in every.items() if variant == "learned"}
    if learned:
        rows = _where(table, variant="learned")
        yield Drawing(
            "gaze_calibration",
            _calibration_panels(learned, _unique(rows["dimension"])),
            "Whether predicted variances can be believed",
            CALIBRATION + _seeds(rows) + " Bars: range of seeds." * _several(rows),
        )
    others = {
        f"{_NAMES[variant]},\n{_lambda(sparsity)}": rows
        for (variant, sparsity), rows in every.items()
        if variant != "learned"
    }
    hand = [name for name in _unique(table["dimension"]) if name.startswith("hand")]
    if others and hand:
        rows = _subset(table, table["variant"] != "learned")
        yield Drawing(
            "gaze_calibration_compared",
            _calibration_panels(others, hand),
            "Whether predicted variances can be believed of the models compared with",
            CALIBRATION
            + "Only the hand's dimensions are shown: by their variances a focus is chosen. "
            + _seeds(rows)
            + " Bars: range of seeds." * _several(rows),
        )


CALIBRATION = (
    "Mean of squared errors divided by predicted variances on test sequences whose focus changes at random, by the "
    "entity that is attended and the dimension that is predicted, at the next step (top) and at the next event "
    "boundary (bottom); 1 is calibrated, more is overconfident. "
)


def gaze_gates(table: Table, looks: Looks) -> Iterator[Drawing]:
    """Whether gates open at transitions seen through the mask, against how often they open at all."""
    rows = _where(table, variant="learned")
    names, sparsities = _unique(rows["transition"]), np.unique(rows["sparsity"]).tolist()
    if not names:
        return
    figure = Figure(figsize=(COLUMN, 2.6), layout="constrained")
    ax = figure.subplots()
    handles = {}
    for number, sparsity in enumerate(sparsities):
        look = looks[sparsity]
        for place, name in enumerate(names):
            x, some = place + _beside_each_other(number, len(sparsities)), _where(rows, transition=name)
            _seed_dots(ax, x, over_seeds(_where(some, sparsity=sparsity), "sparsity", "recall"), look)
            rate = _mean(_where(some, sparsity=sparsity)["opening_rate"])
            ax.plot([x - 0.08, x + 0.08], [rate, rate], color=look.colour, linewidth=1.5, linestyle=DOTS)
        handles[_lambda(sparsity)] = Line2D([], [], color=look.colour, marker=look.marker, linestyle="none")
    handles["any step"] = Line2D([], [], color=GREY, linewidth=1.5, linestyle=DOTS)
    ax.set_xticks(range(len(names)), [name.replace("-", " →\n") for name in names])
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.tick_params(axis="x", length=0)
    ax.set_ylim(-0.02, 1.04)
    ax.set_ylabel("Share with an opening")
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=len(handles), handlelength=1)
    yield Drawing(
        "gaze_gates",
        figure,
        "Whether gates open at transitions that are seen through noise",
        "Share of true transitions within one step of an opened gate, when the focus changes at random (symbols), and "
        "share of all steps of such sequences at which a gate opens (dotted): an opening near every transition says "
        "nothing if there is one at every step. "
        + _seeds(rows)
        + " Small dots: single seeds; large symbols: their mean.",
    )


def _calibration_panels(columns: Mapping[str, Table], dimensions: Sequence[str]) -> Figure:
    """A column for each sort of model, a row for each network, on one scale."""
    figure = Figure(figsize=(PAGE, 4.1), layout="constrained")
    axes = figure.subplots(2, len(columns), sharex=True, sharey=True, squeeze=False)
    for row, (network, name) in enumerate(_NETWORKS.items()):
        for column, (title, rows) in enumerate(columns.items()):
            ax = axes[row, column]
            ax.axhspan(*CALIBRATED, color=LIGHT, linewidth=0, zorder=0)
            ax.axhline(1, color=GREY, linewidth=0.6, zorder=0)
            for number, (entity, look) in enumerate(ENTITIES.items()):
                for place, dimension in enumerate(dimensions):
                    some = _where(rows, network=network, attended=entity, dimension=dimension)
                    _mean_and_range(ax, place + _beside_each_other(number, 3, 0.24), some["ratio"], look)
            _name(ax, "abcdefghijklmnop"[row * len(columns) + column], title if row == 0 else "")
            ax.tick_params(axis="x", length=0)
        axes[row, 0].set_ylabel(f"{name}:\nsquared error / variance")
    ratios = np.concatenate([rows["ratio"] for rows in columns.values()])
    ratios = ratios[ratios > 0]
    ax = axes[0, 0]
    ax.set_yscale("log")
    ax.set_ylim(min(0.45, ratios.min(initial=1) / 1.15), max(2.2, ratios.max(initial=1) * 1.15))
    if ax.get_ylim()[1] < 20 * ax.get_ylim()[0]:  # otherwise powers of ten
        ax.yaxis.set_major_locator(FixedLocator((0.1, 0.2, 0.5, 0.8, 1.25, 2, 5, 10)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_locator(NullLocator())
    for ax in axes[-1]:
        ax.set_xticks(range(len(dimensions)), [name.replace("_", " ") for name in dimensions], rotation=90)
        ax.set_xlim(-0.6, len(dimensions) - 0.4)
    keys = [
        Line2D([], [], color=look.colour, linestyle="none", marker=look.marker, label=f"{entity} attended")
        for entity, look in ENTITIES.items()
    ]
    band = Patch(facecolor=LIGHT, edgecolor="none", label=f"{CALIBRATED[0]:g} to {CALIBRATED[1]:g}")
    figure.legend(handles=[*keys, band], loc="outside upper center", ncols=4, handlelength=1.2)
    return figure


CALIBRATED = (0.8, 1.25)
"""Ratios of squared error and variance between which variances count as believable."""
_NETWORKS = {"forward": "Next step", "skip": "Next event"}


def _mean_and_range(ax: Axes, x: float, values: np.ndarray, look: Look) -> None:
    """A symbol for the mean and a bar from the least to the greatest."""
    values = values[np.isfinite(values)]
    if values.size:
        ax.plot([x, x], [values.min(), values.max()], color=look.colour, linewidth=0.9)
        ax.plot(x, values.mean(), look.marker, color=look.colour, markersize=3)


# --- Figures of examples -------------------------------------------------------------------------------------------


def examples(episodes: list[dict[str, Any]], looks: Looks) -> Iterator[Drawing]:
    """One sequence of each kind: positions, actions, latent state and gates, with true and learned boundaries."""
    shown = [next(one for one in episodes if one["kind"] == kind) for kind in _kinds(one["kind"] for one in episodes)]
    if not shown:
        return
    figure = Figure(figsize=(PAGE, 6.7), layout="constrained")
    axes = figure.subplots(6, len(shown), sharex="col", squeeze=False, height_ratios=[0.8, 0.8, 0.8, 1, 1.3, 1.1])
    for first, *others in axes[3:]:  # positions have scales of their own: a hand that stretches goes far
        for ax in others:
            ax.sharey(first)
            ax.tick_params(labelleft=False)
    dimensions = _dimension_looks(shown)
    for column, letter, one in zip(axes.T, "abc", shown, strict=True):
        steps = np.arange(1, len(one["action"]) + 1)
        observation = one["observation"][:-1]
        for ax, axis in zip(column[:3], range(3), strict=True):
            for part, look in zip((HAND, OBJECT, GOAL), ENTITIES.values(), strict=True):
                ax.plot(steps, observation[:, part][:, axis], color=look.colour, linestyle=look.dash)
        for index, look in enumerate(_ACTION_LOOKS):
            column[3].plot(steps, one["action"][:, index], color=look.colour, linestyle=look.dash)
        _latent_lines(column[4], steps, one["latent_change"], dimensions)
        _gate_marks(column[5], steps, one["gate"], dimensions)
        _mark_events(column, one, steps)
        _name(column[0], letter, KIND_TITLES[one["kind"]], pad=22.0)
        column[-1].set_xlabel("Step")
        column[-1].set_xlim(0.5, len(steps) + 0.5)
        column[-1].set_xticks([1, *range(5, len(steps) + 1, 5)])
    labels = ("x (m)", "y (m)", "z (m)", "Action", "Latent change\n$h_t - h_0$", "Gates open\n(dimension)")
    for ax, label in zip(axes[:, 0], labels, strict=True):
        ax.set_ylabel(label)
    for ax in axes[:3].flat:
        ax.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    width = shown[0]["gate"].shape[1]
    axes[5, 0].set_ylim(width + 0.7, 0.3)
    axes[5, 0].set_yticks(sorted({1, *range(4, width + 1, 4)}))
    figure.align_ylabels(axes[:, 0])
    _beside(axes[1, -1], ENTITIES)
    _beside(axes[3, -1], dict(zip(("move x", "move y", "move z", "gripper"), _ACTION_LOOKS, strict=True)))
    named = {f"dim. {index + 1}": look for index, look in sorted(dimensions.items())}
    _beside(axes[4, -1], {**named, "others": Look(GREY, "-", "")})
    axes[5, -1].legend(
        handles=[
            Patch(facecolor=LIGHT, edgecolor="none", label="every other\ntrue event"),
            Line2D([], [], color=BLACK, linewidth=0.8, marker="v", label="learned\nboundary"),
        ],
        loc="center left",
        bbox_to_anchor=(1.03, 0.5),
    )
    seeds = sorted({int(one["seed"]) for one in shown})
    models = f"seed {seeds[0]}" if len(seeds) == 1 else "seeds " + ", ".join(map(str, seeds))
    yield Drawing(
        "examples",
        figure,
        "Example sequences and what the memory makes of them",
        f"One test sequence of each kind, as one trained model ({models}) sees it: positions of hand, object and goal, "
        "actions, change of the latent state since the beginning for each dimension, and the gates that open. The "
        "dimensions that change most have the same colours in all panels. Shading changes with the true event, which "
        "is named on top; black lines and triangles are the boundaries that the model learned.",
    )


def skip_hands(scenes: list[dict[str, Any]], looks: Looks) -> Iterator[Drawing]:
    """Where all seeds' skip networks expect the hand, in three scenes."""
    shown = _scenes(scenes, ((kind, 2) for kind in KINDS))
    if not shown:
        return
    figure = _three_dimensional(shown, ("hand",), 2.45)
    yield Drawing(
        "skip_hands",
        figure,
        "Example skip predictions of the hand",
        "The hand's position that is predicted at step 2 for the next event boundary (open circles, one for each "
        "seed), in one test sequence of each kind, with hand (dot), object (cube) and goal (sphere) as they are at "
        "step 2, and where the hand really is at the next true boundary (cross). Thin lines lead down to the table. "
        "Bars: 10 cm. " + _predictions(shown),
    )


def skip_others(scenes: list[dict[str, Any]], looks: Looks) -> Iterator[Drawing]:
    """Where all seeds' skip networks expect object and goal, in three scenes and while an object is carried."""
    shown = _scenes(scenes, (*((kind, 2) for kind in KINDS), (KINDS[0], 12)))
    if not shown:
        return
    figure = _three_dimensional(shown, ("object", "goal"), 2.1)
    yield Drawing(
        "skip_others",
        figure,
        "Example skip predictions of object and goal",
        "Positions of the object (open squares) and of the goal (open circles) that are predicted for the next event "
        "boundary, one of each for each seed: at step 2 of one test sequence of each kind, and at step 12 of a "
        "reach–grasp–transport, when the object is carried. Hand (dot), object (cube) and goal (sphere) are shown as "
        "they are at that step; the cross is where the object really is at the next true boundary. Thin lines lead "
        "down to the table. Bars: 10 cm. " + _predictions(shown),
    )


# --- Figures of boundaries -----------------------------------------------------------------------------------------


def openings(table: Table, looks: Looks) -> Iterator[Drawing]:
    """How often gates open at each step of each kind of sequence, for every λ (claims A2 and A5)."""
    rows = _gated(table)
    kinds = _kinds(rows["kind"])
    if not kinds:
        return
    figure = Figure(figsize=(PAGE, 2.3), layout="constrained")
    axes = _row_of_axes(figure, len(kinds), sharey=True)
    handles = {}
    for ax, letter, kind in zip(axes, "abc", kinds, strict=True):
        for number, sparsity in enumerate(np.unique(rows["sparsity"]).tolist()):
            band = over_seeds(_where(rows, kind=kind, sparsity=sparsity), "step", "opening_rate")
            handles[_lambda(sparsity)] = plot_band(ax, band, looks[sparsity], offset=number)
        ax.set_xlabel("Step")
        ax.set_xticks([1, *range(5, int(rows["step"].max()) + 1, 5)])
        ax.set_ylim(0, 1.03)
        _name(ax, letter, KIND_TITLES[kind])
    axes[0].set_ylabel("Sequences with an opening")
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=len(handles))
    yield Drawing(
        "openings",
        figure,
        "When gates open",
        "Share of test sequences in which at least one gate opens, at each step, for each kind of sequence and each "
        "sparsity λ. " + _seeds(rows) + _shading(rows),
    )


def transitions(table: Table, looks: Looks) -> Iterator[Drawing]:
    """How many of the true transitions of each sort have a learned boundary, for every λ (claim A3)."""
    names = _unique(table["transition"])
    sparsities = np.unique(table["sparsity"]).tolist()
    figure = Figure(figsize=(COLUMN, 2.5), layout="constrained")
    ax = figure.subplots()
    handles = {}
    for number, sparsity in enumerate(sparsities):
        look = looks[sparsity]
        for place, name in enumerate(names):
            values = over_seeds(_where(table, transition=name, sparsity=sparsity), "sparsity", "recall")
            _seed_dots(ax, place + _beside_each_other(number, len(sparsities)), values, look)
        handles[_lambda(sparsity)] = Line2D([], [], color=look.colour, marker=look.marker, linestyle="none")
    ax.set_xticks(range(len(names)), [_arrow(name) for name in names])
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.tick_params(axis="x", length=0)
    ax.set_ylim(-0.02, 1.04)
    ax.set_ylabel("Recall within one step")
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=len(handles), handlelength=1)
    counts = {name: int(np.nanmax(_where(table, transition=name)["count"])) for name in names}
    yield Drawing(
        "transitions",
        figure,
        "Which transitions the gates find",
        "Share of true transitions within one step of a learned boundary, for each sort of transition and each "
        "sparsity λ. Transitions in the test set: "
        + ", ".join(f"{name} {count:,}" for name, count in counts.items())
        + ". "
        + _seeds(table)
        + " Small dots: single seeds; large symbols: their mean.",
    )


def agreement(table: Table, looks: Looks) -> Iterator[Drawing]:
    """How well learned boundaries agree with true ones, for every λ, against random boundaries (claim A3)."""
    rows = _where(_gated(table), kind="all")
    sorts = {"openings": "every opening", "episodes": "bursts of openings as one", "random": "as many at random"}
    sorts = {sort: name for sort, name in sorts.items() if sort in rows["boundaries"]}
    sparsities = np.unique(rows["sparsity"]).tolist()
    if not sparsities or not sorts:
        return
    figure = Figure(figsize=(PAGE, 2.3), layout="constrained")
    axes = _row_of_axes(figure, 3, sharey=True)
    for ax, letter, measure in zip(axes, "abc", ("precision", "recall", "f1"), strict=True):
        for place, sparsity in enumerate(sparsities):
            for number, sort in enumerate(sorts):
                values = over_seeds(_where(rows, sparsity=sparsity, boundaries=sort), "sparsity", measure)
                if not len(values.x):
                    continue
                colour = GREY if sort == "random" else looks[sparsity].colour
                x = place + _beside_each_other(number, len(sorts), 0.25)
                ax.errorbar(
                    x,
                    values.mean,
                    yerr=np.nan_to_num(values.interval),
                    fmt=_SORT_MARKERS[sort],
                    color=colour,
                    markerfacecolor=colour if sort == "episodes" else "white",
                    markersize=4,
                    elinewidth=1,
                )
        ax.set_xticks(range(len(sparsities)), [f"{one:g}" for one in sparsities])
        ax.set_xlim(-0.5, len(sparsities) - 0.5)
        ax.set_ylim(0, 1.04)
        ax.set_xlabel("Sparsity λ")
        _name(ax, letter, {"f1": "F1"}.get(measure, measure.capitalize()))
    axes[0].set_ylabel("Agreement within one step")
    keys = [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=_SORT_MARKERS[sort],
            color=GREY if sort == "random" else BLACK,
            markerfacecolor=BLACK if sort == "episodes" else "white",
            label=name,
        )
        for sort, name in sorts.items()
    ]
    figure.legend(handles=keys, loc="outside upper center", ncols=len(keys), handlelength=1)
    yield Drawing(
        "agreement",
        figure,
        "How well learned boundaries agree with true ones",
        "Precision (a), recall (b) and F1 (c) of learned boundaries within one step of true ones, over all test "
        "sequences, for each sparsity λ: every step at which a gate opens, bursts of openings counted once, and as "
        "many boundaries as those at random steps. " + _seeds(rows) + _bars(rows),
    )


def rivals(table: Table, looks: Looks) -> Iterator[Drawing]:
    """F1 of established segmentation methods and of our gates, from clean to noisy data (claim A3)."""
    levels = _levels(table)
    table = {**table, "level": np.array([levels.index(name) for name in table["noise"]], float)}
    own = np.isfinite(table["sparsity"])
    ours, others = _subset(table, own), _subset(table, ~own)
    if len(ours["sparsity"]):
        ours = _where(ours, sparsity=_main(ours))
    inputs = [one for one in ("observations", "actions", "both") if one in others["input"]] or ["both"]
    named = [one for one in _unique(others["method"]) if one not in RIVALS]
    rival_looks = {**RIVALS, **dict(zip(named, cycle(SPARE)))}
    several = len(inputs) > 1
    figure = Figure(figsize=(PAGE if several else COLUMN, 2.75), layout="constrained")
    axes = _row_of_axes(figure, len(inputs), sharey=True)
    handles = {}
    for ax, letter, what in zip(axes, "abc"[: len(inputs)], inputs, strict=True):
        for name in _unique(others["method"]):
            rows = _where(others, method=name)
            if name != "random":  # which looks at no input, and is drawn in each panel to compare with
                rows = _where(rows, input=what)
            band = over_seeds({**rows, "seed": np.zeros(len(rows["f1"]))}, "level", "f1")
            if len(band.x):
                handles[name] = plot_band(ax, band, rival_looks[name], linewidth=1, markevery=1)
        for name, dash in zip(_unique(ours["method"]), cycle(("-", SHORT, DOTS))):
            band = over_seeds(_where(ours, method=name), "level", "f1")
            look = looks[_main(ours)]._replace(dash=dash)
            handles[f"{name}, {_lambda(_main(ours))}"] = plot_band(
                ax, band, look, half=band.interval, linewidth=1.8, zorder=4, markevery=1
            )
        ax.set_xticks(range(len(levels)), _level_names(table, levels))
        ax.set_xlim(-0.25, len(levels) - 0.75)
        ax.set_ylim(0, 1.03)
        ax.set_xlabel("Noise (senses, actions)")
        _name(ax, letter, {"both": "Observations and actions"}.get(what, what.capitalize()))
    axes[0].set_ylabel("F1 within one step")
    order = sorted(handles, key=lambda name: name in rival_looks)  # ours first
    figure.legend([handles[name] for name in order], order, loc="outside upper center", ncols=4 if several else 2)
    count = int(np.nanmax(table["sequences"]))
    words = {"both": "observations and actions"} if len(inputs) < 3 else {}
    seen = " or ".join(f"{words.get(what, what)} ({letter})" for letter, what in zip("abc", inputs, strict=False))
    yield Drawing(
        "rivals",
        figure,
        "Learned boundaries against established segmentation methods",
        f"F1 within one step of the true boundaries, from clean to noisy test sequences, for methods that see {seen}. "
        "Settings of the other methods were chosen on training sequences at every level of noise; our models see "
        "observations and actions, and are drawn in every panel to compare with, as are random boundaries. Below each "
        "level: standard deviation of the noise on positions and "
        f"on actions. Up to {count:,} sequences. "
        + (_seeds(ours) + (" Shading: 95 % interval of the mean over seeds." if _several(ours) else " No shading."))
        * bool(len(ours["method"])),
    )


FIGURES: dict[Callable[[Any, Looks], Iterator[Drawing]], str] = {
    training: "training.csv",
    examples: "examples.json",
    openings: "openings.csv",
    transitions: "transitions.csv",
    agreement: "agreement.csv",
    rivals: "rivals.csv",
    skip_distances: "skip_distances.csv",
    skip_spread: "skip_spread.csv",
    skip_hands: "skip_examples.json",
    skip_distances_of_others: "skip_distances.csv",
    skip_others: "skip_examples.json",
    gaze: "gaze.csv",
    gaze_compared: "gaze.csv",
    gaze_calibration: "gaze_calibration.csv",
    gaze_gates: "gaze_gates.csv",
}
"""What each figure is drawn from, in the paper's order."""


# --- Many seeds ----------------------------------------------------------------------------------------------------


class Band(NamedTuple):
    """A measure over x: its mean over seeds and how much seeds differ. NaN where there are too few of them."""

    x: np.ndarray
    values: np.ndarray
    """(seeds, x)"""
    mean: np.ndarray
    deviation: np.ndarray
    """Standard deviation over seeds."""
    interval: np.ndarray
    """Half of the 95 % interval of the mean, by Student's t."""

    @property
    def error(self) -> np.ndarray:
        """Standard error of the mean."""
        return self.deviation / np.sqrt(np.maximum(np.isfinite(self.values).sum(0), 1))


def over_seeds(table: Table, x: str, y: str) -> Band:
    """Mean and spread over seeds of the column `y` for each value of `x`; rows that share both are averaged first."""
    known = _subset(table, np.isfinite(table[y]))
    places, where = np.unique(known[x], return_inverse=True)
    seeds, which = np.unique(known["seed"], return_inverse=True)
    total, number = np.zeros((2, len(seeds), len(places)))
    np.add.at(total, (which, where), known[y])
    np.add.at(number, (which, where), 1)
    there = number > 0
    values = np.where(there, total / np.maximum(number, 1), np.nan)
    count = there.sum(0)
    mean = np.where(there, values, 0).sum(0) / np.maximum(count, 1)
    square = np.where(there, values - mean, 0) ** 2
    free = np.where(count > 1, count - 1, np.nan)
    deviation = np.sqrt(square.sum(0) / free)
    return Band(places, values, mean, deviation, stdtrit(free, 0.975) * deviation / np.sqrt(count))


def plot_band(
    ax: Axes,
    band: Band,
    look: Look,
    *,
    half: np.ndarray | None = None,
    offset: int = 0,
    markevery: int | None = None,
    **line: Any,
) -> Line2D:
    """A line with a shaded band around it (None: one standard deviation); `offset` keeps lines' markers apart."""
    half = band.deviation if half is None else half
    if markevery is None:
        markevery = max(1, len(band.x) // 5)
    drawn = ax.plot(
        band.x,
        band.mean,
        color=look.colour,
        linestyle=look.dash,
        marker=look.marker,
        markevery=(offset * markevery // 4 % markevery, markevery),
        **line,
    )[0]
    if np.isfinite(half).any():
        ax.fill_between(band.x, band.mean - half, band.mean + half, color=look.colour, alpha=0.18, linewidth=0)
    return drawn


def _series(table: Table) -> Iterator[Table]:
    """The rows of each λ and memory."""
    memory = table.get("memory", np.full(len(table["seed"]), ""))
    for name in _unique(memory):
        rows = _subset(table, memory == name)
        for sparsity in np.unique(rows["sparsity"]):
            yield _where(rows, sparsity=sparsity)


def _several(table: Table) -> bool:
    return any(len(np.unique(rows["seed"])) > 1 for rows in _series(table))


def _seeds(table: Table) -> str:
    """How many seeds the lines stand for, and which, in words."""
    counts = sorted({len(np.unique(rows["seed"])) for rows in _series(table)})
    seeds = np.unique(table["seed"]).astype(int)
    if counts[-1] == 1:
        return f"One seed ({_range(seeds)})."
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Mean of {number} seeds ({_range(seeds)})."


def _range(seeds: np.ndarray) -> str:
    whole = len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1
    return f"{seeds[0]}–{seeds[-1]}" if whole else ", ".join(map(str, seeds))


def _shading(table: Table) -> str:
    return " Shading: ± 1 standard deviation over seeds." if _several(table) else " No shading, since it needs more."


def _errors(table: Table) -> str:
    return " Shading: ± 1 standard error over seeds." if _several(table) else " No shading, since it needs more."


def _memories(table: Table, looks: Looks) -> Iterator[tuple[str, Look, Table]]:
    """Name, look and rows of every λ, then of the GRU."""
    gated = _gated(table)
    for sparsity in np.unique(gated["sparsity"]).tolist():
        yield _lambda(sparsity), looks[sparsity], _where(gated, sparsity=sparsity)
    gru = _where(table, memory="gru")
    if len(gru["seed"]):
        yield "GRU", GRU, gru


def _lambda(sparsity: float) -> str:
    return f"λ = {sparsity:g}"


# --- Axes ----------------------------------------------------------------------------------------------------------


def _row_of_axes(figure: Figure, count: int, *, sharey: bool = False) -> list[Axes]:
    return list(figure.subplots(1, count, sharey=sharey, squeeze=False)[0])


def _name(ax: Axes, letter: str, title: str, pad: float | None = None) -> None:
    """The panel's letter and title."""
    ax.set_title(letter, loc="left", fontweight="bold", pad=pad)
    ax.set_title(title, pad=pad)


def _updates_axis(ax: Axes, updates: np.ndarray) -> None:
    """Updates, in thousands or millions where there are many."""
    most = float(updates.max())
    unit, name = next((pair for pair in _UNITS if most >= 5 * pair[0]), (1, ""))
    ax.set_xlim(0, most or 1)
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:g}"))
    ax.set_xlabel(f"Updates{name}")


_UNITS = ((1_000_000, " (millions)"), (1_000, " (thousands)"))


def _log_axis(ax: Axes, bands: Sequence[Band]) -> None:
    """A logarithmic axis just large enough for the means; a band that reaches zero leaves it at the bottom."""
    means = np.concatenate([band.mean for band in bands]) if bands else np.zeros(0)
    means = means[means > 0]
    ax.set_yscale("log", nonpositive="clip")
    if means.size:
        tops = np.concatenate([band.mean + np.nan_to_num(band.deviation) for band in bands])
        ax.set_ylim(means.min() / 1.6, tops.max() * 1.3)
    if means.size and means.max() > 10 * means.min():
        ax.yaxis.set_minor_formatter(NullFormatter())


def _distance_lines(ax: Axes, rows: Table) -> None:
    for number, (entity, look) in enumerate(ENTITIES.items()):
        band = over_seeds(_where(rows, to=entity), "update", "distance")
        if len(band.x):
            plot_band(ax, band, look, offset=number)
    _updates_axis(ax, rows["update"])


BIRTH = "Untrained networks, more than a metre off, are beyond the scale."


def _leave_out_birth(ax: Axes, rows: Table) -> None:
    """A scale from 0 to what trained networks say: at birth they are so far off that no development could be seen."""
    trained = rows["distance"][rows["update"] > 0]
    ax.set_ylim(0, 1.08 * trained.max() if trained.size else None)


def _legend_of_entities(figure: Figure, before: str) -> None:
    lines = [
        Line2D([], [], color=look.colour, linestyle=look.dash, marker=look.marker, label=before + entity)
        for entity, look in ENTITIES.items()
    ]
    figure.legend(handles=lines, loc="outside upper center", ncols=len(lines))


def _names_at_the_end(ax: Axes, names: Sequence[tuple[float, str, str]]) -> None:
    """Writes what each line is to the right of where it ends, names pushed apart where lines end together."""
    low, high = ax.get_ylim()
    names = sorted(names)
    places = [(value - low) / (high - low) for value, _, _ in names]
    for _ in range(50):
        for below, above in pairwise(range(len(places))):
            missing = max(0.0, 0.09 - (places[above] - places[below]))
            places[below] -= missing / 2
            places[above] += missing / 2
    for place, (_, text, colour) in zip(places, names, strict=True):
        ax.annotate(
            text,
            (1, place),
            (4, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=7,
            annotation_clip=False,
        )


def _beside(ax: Axes, looks: Mapping[str, Look]) -> None:
    """A legend to the right of the axes."""
    lines = [Line2D([], [], color=look.colour, linestyle=look.dash, label=name) for name, look in looks.items()]
    ax.legend(handles=lines, loc="center left", bbox_to_anchor=(1.03, 0.5), labelspacing=0.3)


def _beside_each_other(number: int, count: int, space: float = 0.2) -> float:
    return (number - (count - 1) / 2) * space


def _seed_dots(ax: Axes, x: float, values: Band, look: Look) -> None:
    """A large symbol for the mean and a small dot for each seed."""
    dots = values.values[np.isfinite(values.values)]
    ax.plot(np.full(dots.size, x - 0.06), dots, ".", color=look.colour, alpha=0.6, markersize=3.5, markeredgewidth=0)
    ax.plot(np.full(len(values.mean), x + 0.02), values.mean, look.marker, color=look.colour, markersize=4)


_SORT_MARKERS = {"openings": "s", "episodes": "o", "random": "x"}


def _bars(table: Table) -> str:
    return " Bars: 95 % interval of the mean over seeds." if _several(table) else ""


def _arrow(transition: str) -> str:
    """A transition's name in two lines."""
    return transition.replace("->", "→").replace(" ", "").replace("→", " →\n")


def _levels(table: Table) -> list[str]:
    """Names of noise levels, the cleanest first."""
    order = sorted(zip(table["sensory"].tolist(), table["motor"].tolist(), table["noise"].tolist(), strict=True))
    return list(dict.fromkeys(name for _, _, name in order))


def _level_names(table: Table, levels: Sequence[str]) -> list[str]:
    """What is written below each level: its name and its standard deviations."""
    names = []
    for level in levels:
        rows = _where(table, noise=level)
        sensory, motor = float(rows["sensory"][0]), float(rows["motor"][0])
        names.append(f"{level}\n{1000 * sensory:g} mm\n{motor:g}")
    return names


# --- Sequences -----------------------------------------------------------------------------------------------------

_ACTION_LOOKS = (Look(BLACK, "-", ""), Look(SKY, SHORT, ""), Look(ORANGE, DASH_DOT, ""), Look(PURPLE, DOTS, ""))
_NAMED = (
    Look(BLUE, "-", ""),
    Look(ORANGE, "-", ""),
    Look(GREEN, SHORT, ""),
    Look(VERMILLION, SHORT, ""),
    Look(PURPLE, DASH_DOT, ""),
    Look(SKY, DASH_DOT, ""),
)
"""For the dimensions of the latent state that change most."""


def _dimension_looks(episodes: Sequence[dict[str, Any]]) -> dict[int, Look]:
    """Looks for the dimensions that change most in any of the sequences, at most as many as can be told apart."""
    change = np.max([np.abs(one["latent_change"]).max(0) for one in episodes], axis=0)
    most = [int(index) for index in np.argsort(-change, kind="stable")[: len(_NAMED)]]
    return dict(zip(sorted(index for index in most if change[index] > 0.05 * change.max()), _NAMED, strict=False))


def _latent_lines(ax: Axes, steps: np.ndarray, change: np.ndarray, looks: Mapping[int, Look]) -> None:
    for index in range(change.shape[1]):
        look = looks.get(index)
        line = {"color": GREY, "linewidth": 0.5} if look is None else {"color": look.colour, "linestyle": look.dash}
        ax.plot(steps, change[:, index], zorder=2 if look is None else 3, **line)


def _gate_marks(ax: Axes, steps: np.ndarray, gate: np.ndarray, looks: Mapping[int, Look]) -> None:
    """A box for each step at which a dimension's gate is open."""
    for index in range(gate.shape[1]):
        opened = [(step - 0.45, 0.9) for step in steps[gate[:, index] > 0]]
        colour = looks[index].colour if index in looks else GREY
        ax.broken_barh(opened, (index + 0.6, 0.8), facecolor=colour, linewidth=0, zorder=3)


def _mark_events(column: np.ndarray, one: dict[str, Any], steps: np.ndarray) -> None:
    """Shades every other true event and names each on top; draws a line at every learned boundary."""
    begins = [0, *(int(step) for step in np.flatnonzero(one["true_boundary"]) if step), len(steps)]
    raised = False
    for number, (begin, end) in enumerate(pairwise(begins)):
        name = one["phase"][begin]
        raised = not raised and end - begin < len(name)  # too narrow for its name
        column[0].annotate(
            name,
            ((begin + end + 1) / 2, 1),
            (0, 13 if raised else 5),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            fontsize=6.5,
            annotation_clip=False,
        )
        for ax in column if number % 2 else ():
            ax.axvspan(begin + 0.5, end + 0.5, color=LIGHT, linewidth=0, zorder=0)
    for step in steps[one["boundary"]]:
        for ax in column:
            ax.axvline(step, color=BLACK, linewidth=0.7, zorder=1)
        column[0].plot(step, 1, "v", color=BLACK, transform=column[0].get_xaxis_transform(), clip_on=False)


# --- Scenes in three dimensions ------------------------------------------------------------------------------------

_MOMENTS = {(KINDS[0], 2): "Reaching", (KINDS[1], 2): "Pointing", (KINDS[2], 2): "Stretching"} | {
    (KINDS[0], 12): "Transporting"
}
_PARTS = {"hand": HAND, "object": OBJECT, "goal": GOAL}


def _moment(kind: str, step: int) -> str:
    return f"{_MOMENTS[kind, step]}, t = {step}"


def _scenes(scenes: list[dict[str, Any]], wanted: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    """The first scene of each kind and step."""
    found = {(one["kind"], int(one["from_step"])): one for one in reversed(scenes)}
    return [found[pair] for pair in wanted if pair in found]


def _predictions(scenes: Sequence[dict[str, Any]]) -> str:
    seeds = np.unique([one["seed"] for scene in scenes for one in scene["predictions"]]).astype(int)
    return f"{len(seeds)} seeds ({_range(seeds)})." if len(seeds) > 1 else f"One seed ({_range(seeds)})."


def _seen(points: np.ndarray) -> np.ndarray:
    """Where points (..., 3) are on paper, in metres from left to right and upwards, seen from the robot's right.

    By parallel lines, so that lengths on paper are the same near and far; Matplotlib's own 3-D axes can neither be
    cropped to what they show nor sort things by their distance.
    """
    round_about, above = np.deg2rad((-62, 24))
    rightwards = (-np.sin(round_about), np.cos(round_about), 0)
    upwards = (-np.sin(above) * np.cos(round_about), -np.sin(above) * np.sin(round_about), np.cos(above))
    return np.asarray(points) @ np.transpose([rightwards, upwards])


def _three_dimensional(scenes: Sequence[dict[str, Any]], predicted: Sequence[str], height: float) -> Figure:
    """Scenes side by side on the same scale, each cropped to what it shows, with a legend below."""
    figure = Figure(figsize=(PAGE, height))
    bottom, top, gap = 0.3 / height, 1 - 0.2 / height, 0.01
    width = 1 / len(scenes)
    boxes = np.array([_box(scene, predicted) for scene in scenes])
    shape = PAGE * (width - 2 * gap) / (height * (top - bottom))
    across, upwards = (boxes[:, 1] - boxes[:, 0]).max(0) + 0.1
    across = max(across, upwards * shape, 0.5)  # no closer, for the table to be known as one
    for number, (letter, scene, box) in enumerate(zip("abcd", scenes, boxes, strict=False)):
        ax = figure.add_axes((number * width + gap, bottom, width - 2 * gap, top - bottom))
        ax.set_axis_off()
        middle = box.mean(0)
        ax.set_xlim(middle[0] - across / 2, middle[0] + across / 2)
        ax.set_ylim(middle[1] - across / shape / 2, middle[1] + across / shape / 2)
        _scene(ax, scene, predicted)
        _scale_bar(ax, letter == "a")
        figure.text(number * width + gap, 0.985, letter, fontweight="bold", va="top")
        figure.text(
            (number + 0.5) * width, 0.985, _moment(scene["kind"], int(scene["from_step"])), ha="center", va="top"
        )
    figure.legend(
        handles=_scene_keys(predicted), loc="lower center", ncols=8, bbox_to_anchor=(0.5, 0.01), handlelength=1
    )
    return figure


def _box(scene: dict[str, Any], predicted: Sequence[str]) -> np.ndarray:
    """Lower left and upper right corner, on paper, of everything a scene shows and of what lies below it."""
    rows = [scene["observation"][part] for part in _PARTS.values()] + [scene["next"][_PARTS[predicted[0]]]]
    rows += [one[name] for one in scene["predictions"] for name in predicted]
    points = np.array(rows) - (0, 0, scene["table_height"])
    seen = _seen(np.concatenate([points, points * (1, 1, 0)]))
    return np.array([seen.min(0), seen.max(0)])


def _scene(ax: Axes, scene: dict[str, Any], predicted: Sequence[str]) -> None:
    """The table, then what stands and hovers over it, then what is predicted."""
    table = np.array([0, 0, scene["table_height"]])
    ax.add_patch(Polygon(_seen(np.column_stack([TABLE, np.zeros(4)])), facecolor=LIGHT, edgecolor=GREY, linewidth=0.5))
    now = {name: scene["observation"][part] - table for name, part in _PARTS.items()}
    later = scene["next"][_PARTS[predicted[0]]] - table
    for name, place in (*now.items(), ("truth", later)):
        _plumb_line(ax, place, ENTITIES[name].colour if name in ENTITIES else BLACK, 0.8)
    _cube(ax, now["object"])
    ball = Circle(
        tuple(_seen(now["goal"])), GOAL_RADIUS, facecolor=PALE_VERMILLION, edgecolor=VERMILLION, linewidth=0.6
    )
    ax.add_patch(ball).set_zorder(3)
    ax.plot(*_seen(now["hand"]), zorder=3, **_symbol(ENTITIES["hand"], True))
    for name in predicted:
        for one in scene["predictions"]:
            if name == "hand":
                _plumb_line(ax, one[name] - table, ENTITIES[name].colour, 0.3)
            ax.plot(*_seen(one[name] - table), zorder=4, **_symbol(SYMBOLS[name], False))
    ax.plot(*_seen(later), zorder=5, **_symbol(Look(BLACK, "-", "x"), True))


def _plumb_line(ax: Axes, place: np.ndarray, colour: str, width: float) -> None:
    """A thin line down to the table, without which a point's place in space could not be seen."""
    ends = _seen(np.array([place, place * (1, 1, 0)]))
    ax.plot(*ends.T, color=colour, linewidth=width, linestyle=DOTS if width > 0.5 else "-", alpha=0.7, zorder=2)


def _cube(ax: Axes, middle: np.ndarray) -> None:
    """The object, with the three faces that are seen."""
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * RESTING
    faces = {
        "#a9d9cb": np.insert(corners, 1, -RESTING, axis=1),  # in front
        "#c3e5db": np.insert(corners, 0, RESTING, axis=1),  # on the right
        PALE_GREEN: np.insert(corners, 2, RESTING, axis=1),  # on top
    }
    for colour, face in faces.items():
        ax.add_patch(Polygon(_seen(middle + face), facecolor=colour, edgecolor=GREEN, linewidth=0.6, zorder=3))


def _scale_bar(ax: Axes, named: bool) -> None:
    """Ten centimetres, as long wherever they are seen from left to right."""
    left, low = ax.get_xlim()[0], ax.get_ylim()[0]
    step = 0.02 * (ax.get_xlim()[1] - left)
    ax.plot([left + step, left + step + 0.1], [low + step] * 2, color=BLACK, linewidth=1, solid_capstyle="butt")
    if named:
        ax.annotate(
            "10 cm", (left + step + 0.05, low + step), (0, 2), textcoords="offset points", ha="center", fontsize=6.5
        )


SYMBOLS = {"hand": Look(BLUE, "-", "o"), "object": Look(GREEN, "-", "s"), "goal": Look(VERMILLION, "-", "o")}
"""In scenes, where the goal is a sphere."""


def _symbol(look: Look, filled: bool) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": look.marker,
        "color": look.colour,
        "markersize": 5,
        "markerfacecolor": look.colour if filled else "none",
        "markeredgewidth": 1.1 if look.marker == "x" else 0.8,
    }


def _scene_keys(predicted: Sequence[str]) -> list[Line2D]:
    now = [Line2D([], [], **_symbol(look, True), label=f"{name} now") for name, look in SYMBOLS.items()]
    for key, colour in zip(now[1:], (PALE_GREEN, PALE_VERMILLION), strict=True):
        key.set(markerfacecolor=colour, markersize=6.5)
    later = [Line2D([], [], **_symbol(SYMBOLS[name], False), label=f"{name} predicted") for name in predicted]
    truth = Line2D([], [], **_symbol(Look(BLACK, "-", "x"), True), label=f"{predicted[0]} at next boundary")
    return [*now, *later, truth]


# --- Tables --------------------------------------------------------------------------------------------------------

_TEXTS = (
    *("recipe", "memory", "kind", "boundaries", "transition", "method", "input", "noise", "predicted", "to"),
    *("variant", "condition", "entity", "network", "attended", "dimension"),
)
COLUMNS = {
    "training.csv": ("recipe", "memory", "sparsity", "seed", "update", "observation_mse", "action_mse", "gate_rate"),
    "openings.csv": ("memory", "sparsity", "seed", "kind", "step", "opening_rate"),
    "transitions.csv": ("sparsity", "seed", "transition", "recall", "count"),
    "agreement.csv": ("memory", "sparsity", "seed", "boundaries", "kind", "precision", "recall", "f1"),
    "rivals.csv": ("method", "input", "noise", "sensory", "motor", "f1", "sequences", "seed", "sparsity"),
    "skip_distances.csv": ("sparsity", "seed", "update", "kind", "from_step", "predicted", "to", "distance"),
    "skip_spread.csv": ("sparsity", "kind", "update", "spread"),
    "gaze.csv": ("variant", "sparsity", "seed", "update", "condition", "entity", "lead"),
    "gaze_calibration.csv": ("variant", "sparsity", "seed", "network", "attended", "dimension", "ratio"),
    "gaze_gates.csv": ("variant", "sparsity", "seed", "transition", "recall", "opening_rate"),
}
"""The columns that figures need; others may be there."""
_KEYS = {"sparsity", "seed", "update", "step", "from_step"}
"""Columns that say what a row is about."""
ENTRIES: dict[str, dict[str, tuple[int | None, ...] | type[str]]] = {
    "examples.json": {
        "seed": (),
        "kind": str,
        "observation": (None, 11),
        "action": (None, len(ACTION)),
        "latent_change": (None, None),
        "gate": (None, None),
        "boundary": (None,),
        "true_boundary": (None,),
        "phase": (None,),
    },
    "skip_examples.json": {
        "kind": str,
        "from_step": (),
        "observation": (11,),
        "next": (11,),
        "table_height": (),
    },
}
"""The entries that figures need, with their shapes, None being any number."""
_PREDICTION = {"seed": (), "hand": (3,), "object": (3,), "goal": (3,)}


def _read(path: Path) -> Any:
    """A table as columns by name, or a list of examples as arrays by name."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is no text in UTF-8: make it again with the study that it is from") from error
    return _columns(path, text) if path.suffix == ".csv" else _examples(path, text)


def _columns(path: Path, text: str) -> Table:
    rows = list(csv.reader(text.splitlines()))
    names = rows[0] if rows else []
    for name in COLUMNS[path.name]:
        if name not in names:
            raise FileError(f"{path} has no column {name!r}: wanted {', '.join(COLUMNS[path.name])}")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(names):
            raise FileError(f"{path} has {len(row)} values in line {number}: wanted {len(names)}, one for each column")
    table = dict(zip(names, np.array(rows[1:], dtype=str).reshape(-1, len(names)).T, strict=True))
    found = {name: table[name] if name in _TEXTS else _numbers(path, name, table[name]) for name in COLUMNS[path.name]}
    if "memory" in found:
        found["sparsity"] = np.where(found["memory"] == "gru", 0, found["sparsity"])  # it has none
    for name in _KEYS & found.keys() if path.name != "rivals.csv" else ():  # whose other methods have neither
        if np.isnan(found[name]).any():
            line = int(np.isnan(found[name]).argmax()) + 2
            raise FileError(f"{path} has nothing in column {name!r} of line {line}: wanted a number")
    return found


def _numbers(path: Path, name: str, texts: np.ndarray) -> np.ndarray:
    """Numbers; NaN where there is nothing."""
    try:
        return np.array([float(text) if text else np.nan for text in texts])
    except ValueError as error:
        raise FileError(f"{path} has no number in column {name!r} ({error}): wanted numbers, or nothing") from error


def _examples(path: Path, text: str) -> list[dict[str, Any]]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise FileError(f"{path} is no JSON ({error}): make it again with the study that it is from") from error
    if not isinstance(given, list):
        raise FileError(f"{path} holds no list: wanted a list of examples")
    examples = [_entries(path, f"example {number}", one, ENTRIES[path.name]) for number, one in enumerate(given)]
    for number, (one, raw) in enumerate(zip(examples, given, strict=True)):
        where = f"example {number}"
        if path.name == "examples.json":
            _check_lengths(path, where, one)
        else:
            predictions = raw.get("predictions")
            if not isinstance(predictions, list) or not predictions:
                raise FileError(f"{path} has no 'predictions' in {where}: wanted a list with one for each seed")
            one["predictions"] = [_entries(path, f"a prediction of {where}", each, _PREDICTION) for each in predictions]
    return examples


def _entries(path: Path, where: str, given: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, shape in wanted.items():
        if not isinstance(given, dict) or name not in given:
            raise FileError(f"{path} has no {name!r} in {where}: wanted {', '.join(wanted)}")
        if shape is str or name == "phase":
            found[name] = given[name]
            continue
        try:
            array = np.array(given[name], float)
        except (TypeError, ValueError):
            raise FileError(f"{path} has no numbers in {name!r} of {where}: wanted an array of them") from None
        if len(array.shape) != len(shape) or any(w not in (None, h) for w, h in zip(shape, array.shape, strict=True)):
            raise FileError(f"{path} has {name!r} of shape {array.shape} in {where}: wanted {shape}, None being any")
        found[name] = array.astype(bool) if name.endswith("boundary") else array
    return found


def _check_lengths(path: Path, where: str, one: dict[str, Any]) -> None:
    steps = len(one["action"])
    for name in ("observation", "latent_change", "gate", "boundary", "true_boundary", "phase"):
        wanted = steps + 1 if name == "observation" else steps
        if len(one[name]) != wanted:
            raise FileError(f"{path} has {len(one[name])} rows of {name!r} in {where}: wanted {wanted}, as action says")


def _subset(table: Table, chosen: np.ndarray) -> Table:
    return {name: column[chosen] for name, column in table.items()}


def _where(table: Table, **wanted: str | float | int) -> Table:
    """The rows in which each of these columns has this value."""
    chosen = np.ones(len(next(iter(table.values()))), bool)
    for name, value in wanted.items():
        chosen &= table[name] == value
    return _subset(table, chosen)


def _gated(table: Table) -> Table:
    return _subset(table, table["memory"] != "gru")


def _main(table: Table) -> float:
    """The λ nearest to the one the paper goes on with."""
    return min(np.unique(table["sparsity"]).tolist(), key=lambda sparsity: abs(sparsity - MAIN))


def _kinds(given: Iterable[str]) -> list[str]:
    """The kinds that are there, in their usual order."""
    there = {str(kind) for kind in given}
    return [kind for kind in KINDS if kind in there]


def _unique(column: np.ndarray) -> list[str]:
    """What is in a column, in order of appearance."""
    return list(dict.fromkeys(column.tolist()))


def _mean(values: np.ndarray) -> float:
    values = values[np.isfinite(values)]
    return float(values.mean()) if values.size else np.nan
