"""One web page that shows a run: its claims, its figures, single sequences to look into, and its settings.

The page is one file that asks for nothing else: pictures are inside it, and a content security policy, which names the
page's own script and style by their checksums, keeps the browser from fetching or running anything that is not.
"""

import base64
import hashlib
import json
import math
import os
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from saccade.checks import FileError, InputError, check_choice
from saccade.files import replacing

VERDICTS = {"holds": "✓", "does not hold": "✗", "not yet run": "○"}
"""Each verdict with the symbol that stands beside it."""
DIGITS = 5
"""Significant digits of the numbers of sequences: a hundredth of a millimetre, in a quarter of the bytes."""
NARROW = 1_500
"""Pixels: pictures for one column of print are not blown up to the page's width."""
_NOTHING = '<p class="nothing">{}</p>'


@dataclass(frozen=True)
class Figure:
    """A picture of the report with what it shows, and the same for print."""

    title: str
    caption: str
    png: Path
    pdf: Path | None = None


def write(
    path: str | os.PathLike,
    *,
    title: str,
    claims: Sequence[Mapping],
    figures: Sequence[Figure],
    episodes: Sequence[Mapping],
    settings: Mapping,
    gaze: Sequence[Mapping] = (),
) -> None:
    """Writes the page, in one step, over what may have been at `path`.

    A claim has the keys of `results/claims.json`. An episode is one sequence of T steps: `title`, `kind`, `seed`,
    `observation_names`, `action_names`, `entities` (name → dimensions of the observation, 1 to 3 each),
    `observation` (T + 1 rows), `action`, `gate`, `strength`, `opening`, `boundary`, and, where they are known,
    `phase`, `true_boundary`, `skip_mean` and `skip_sd` (T rows each) and `table_height`.
    An entry of `gaze` is one sequence with what a model looks at in it: `title`, `variant`, `sparsity`, `seed`,
    `condition`, `kind`, `entities`, `observation` (T + 1 rows), `focus` (an entity's name for each step), `intra` and
    `inter` (T rows: how unsure the model would be with each focus), `opening`, and, where they are known, `end` (the
    step, counted from 1, at which the hand gets to what it moves to) and `table_height`.
    """
    assets = resources.files("saccade.studies")
    style, script, page = (
        assets.joinpath(f"report.{kind}").read_text(encoding="utf-8") for kind in ("css", "js", "html")
    )
    text = Template(page).substitute(
        title=escape(title),
        policy=f"default-src 'none'; img-src data:; style-src '{_checksum(style)}'; script-src '{_checksum(script)}'",
        style=style,
        script=script,
        summary=_summary(claims),
        claims=_claims(claims),
        figures="\n".join(_figure(number, figure) for number, figure in enumerate(figures, 1))
        or _NOTHING.format("This run drew no figures."),
        settings=_settings(settings),
        episodes=_json([_episode(number, episode) for number, episode in enumerate(episodes)]),
        looks=_json([_looks(number, example) for number, example in enumerate(gaze)]),
    )
    # A lone surrogate, as in a file name that is not UTF-8, is shown as a question mark.
    with replacing(path, overwrite=True) as temporary:
        temporary.write_bytes(text.encode("utf-8", "replace"))


def _checksum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# --- Claims --------------------------------------------------------------------------------------------------------


def _summary(claims: Sequence[Mapping]) -> str:
    """How many claims hold, do not hold and have not been run, in one line."""
    if not claims:
        return _NOTHING.format("No claim has been judged in this run.")
    count = Counter(claim["verdict"] for claim in claims)
    parts = [
        _verdict(verdict, f"{count[verdict]} {many if count[verdict] > 1 else verdict}")
        for verdict, many in zip(VERDICTS, ("hold", "do not hold", "not yet run"), strict=True)
        if count[verdict]
    ]
    return f'<ul class="summary">{"".join(f"<li>{part}</li>" for part in parts)}</ul>'


def _claims(claims: Sequence[Mapping]) -> str:
    """The table of claims; its roles are spelled out since on a narrow screen it is laid out as cards."""
    if not claims:
        return ""
    heads = ("", "Claim", "Value", "Verdict", "Run")
    head = "".join(f'<th role="columnheader" scope="col">{name or _hidden("Number")}</th>' for name in heads)
    return (
        '<table class="claims" role="table" aria-labelledby="claims"><thead role="rowgroup">'
        f'<tr role="row">{head}</tr></thead><tbody role="rowgroup">{"".join(map(_claim, claims))}</tbody></table>'
    )


def _claim(claim: Mapping) -> str:
    low, high = claim.get("low"), claim.get("high")
    interval = "" if low is None or high is None else f"<small>{_number(low)} to {_number(high)}</small>"
    run = (("seeds ", "seeds", ""), ("", "scale", " scale"), ("", "recipe", " recipe"), ("", "date", ""))
    known = [(before, _seeds(claim.get(name)), after) for before, name, after in run]
    facts = " · ".join(f"<span>{before}{value}{after}</span>" for before, value, after in known if value != "–")
    unknown = " none" if claim.get("value") is None else ""
    command = claim.get("command")
    if command:
        facts += f"<details><summary>command</summary>{_copyable(str(command))}</details>"
    return (
        f'<tr role="row"><th role="rowheader" scope="row" class="id">{_number(claim.get("id"))}</th>'
        f'<td role="cell" class="claim">{_number(claim.get("claim"))}<small>{_number(claim.get("check"))}</small></td>'
        f'<td role="cell" class="value{unknown}">{_number(claim.get("value"))}{interval}</td>'
        f'<td role="cell" class="judged">{_verdict(claim["verdict"])}</td>'
        f'<td role="cell" class="run">{facts or "–"}</td></tr>'
    )


def _verdict(verdict: str, words: str | None = None) -> str:
    """A verdict by colour, symbol and word."""
    check_choice("verdict", verdict, VERDICTS)
    kind = verdict.replace(" ", "-")
    return f'<span class="verdict {kind}"><span aria-hidden="true">{VERDICTS[verdict]}</span> {words or verdict}</span>'


def _number(given: Any) -> str:
    """A number with four digits, any text as it is, and a dash for what is not known; safe within HTML."""
    if given is None or (isinstance(given, float | np.floating) and math.isnan(given)):
        return "–"
    if isinstance(given, float | np.floating):
        given = f"{given:.4g}".replace("-", "−")
    return escape(str(given))


def _seeds(given: Any) -> str:
    """Seeds in few signs: 5–14 rather than ten numbers."""
    if not isinstance(given, Iterable) or isinstance(given, str):
        return _number(given)
    runs: list[list[int]] = []
    for seed in sorted(given):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return escape(", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)) or "–"


def _hidden(text: str) -> str:
    return f'<span class="hidden">{text}</span>'


# --- Figures and settings ------------------------------------------------------------------------------------------


def _figure(number: int, figure: Figure) -> str:
    """A figure with its number, caption, a button that enlarges it and its PDF."""
    png = _read(figure.png)
    if png[:8] != b"\x89PNG\r\n\x1a\n" or len(png) < 24:
        raise FileError(f"{figure.png} is no PNG picture: draw the figure again")
    width, height = struct.unpack(">II", png[16:24])
    title, narrow = escape(figure.title), ' class="narrow"' if width < NARROW else ""
    pdf = ""
    if figure.pdf is not None:
        name = escape(figure.pdf.name)
        address = _address("application/pdf", _read(figure.pdf))
        pdf = f'<a download="{name}" href="{address}" aria-label="Save figure {number} as PDF">PDF</a>'
    return (
        f'<figure id="figure-{number}"><button type="button" class="enlarge" aria-label="Enlarge figure {number}">'
        f'<img src="{_address("image/png", png)}" width="{width}" height="{height}"{narrow} alt="{title}" '
        f'aria-describedby="caption-{number}"></button><figcaption><p id="caption-{number}">'
        f"<b>Figure {number}. {title}</b> {escape(figure.caption)}</p>{pdf}</figcaption></figure>"
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}; draw the figure again") from error


def _address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _settings(settings: Mapping) -> str:
    """The command, ready to copy, and a table of all settings behind a heading that opens."""
    rows = list(_flat(settings))
    commands = [str(value) for name, value in rows if name == "command" or name.endswith(".command")]
    body = "".join(
        f'<tr><th scope="row">{escape(name).replace(".", ".<wbr>")}</th><td>{_plain(value)}</td></tr>'
        for name, value in rows
    )
    if not rows:
        return _NOTHING.format("This run told no settings.")
    command = f"<p>The command that made this page:</p>{_copyable(commands[0])}" if commands else ""
    return (
        f"{command}<details><summary>All settings and versions ({len(rows)})</summary>"
        f'<table class="settings"><tbody>{body}</tbody></table></details>'
    )


def _flat(settings: Mapping, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _plain(value: Any) -> str:
    """A setting as a person would write it, to the last digit."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value)) or "none"
    return escape(str(value))


def _copyable(command: str) -> str:
    return (
        f'<div class="command"><pre tabindex="0"><code>{escape(command)}</code></pre>'
        '<button type="button" class="copy">Copy</button></div>'
    )


# --- Sequences -----------------------------------------------------------------------------------------------------


def _episode(number: int, episode: Mapping) -> dict[str, Any]:
    """What the page's script is given of one sequence, checked, so that it need not check."""
    observation = _rounded(number, "observation", episode["observation"], None, None)
    if len(observation) < 2:
        raise InputError(f"episode {number} has {len(observation)} rows of observation: wanted at least 2")
    steps, width = len(observation) - 1, len(observation[0])
    actions = len(episode["action_names"])
    if len(episode["observation_names"]) != width:
        raise InputError(
            f"episode {number} has {len(episode['observation_names'])} observation_names for {width} dimensions: "
            "wanted one for each"
        )
    entities = {str(name): [int(index) for index in own] for name, own in episode["entities"].items()}
    for name, own in entities.items():
        if not 1 <= len(own) <= 3 or not all(0 <= index < width for index in own):
            raise InputError(f"entity {name!r} has dimensions {own}: wanted 1 to 3 of those from 0 to {width - 1}")
    phase, height = episode.get("phase"), episode.get("table_height")
    if phase is not None and len(phase) != steps:
        raise InputError(f"episode {number} has {len(phase)} phases: wanted {steps}, one for each step")
    return {
        **{name: str(episode[name]) for name in ("title", "kind", "seed")},
        **{name: list(map(str, episode[name])) for name in ("observation_names", "action_names")},
        "entities": list(entities.items()),  # a list, since a name such as "2" would change places in JavaScript
        "steps": steps,
        "observation": observation,
        "action": _rounded(number, "action", episode["action"], steps, actions),
        "gate": _rounded(number, "gate", episode["gate"], steps, None),
        "strength": None
        if episode["strength"] is None
        else [row[0] for row in _rounded(number, "strength", np.c_[episode["strength"]], steps, 1)],
        "opening": _marks(number, "opening", episode["opening"], steps),
        "boundary": _marks(number, "boundary", episode["boundary"], steps),
        "true_boundary": _marks(number, "true_boundary", episode.get("true_boundary"), steps),
        "phase": None if phase is None else [None if name is None else str(name) for name in phase],
        "skip_mean": _rounded(number, "skip_mean", episode.get("skip_mean"), steps, width),
        "skip_sd": _rounded(number, "skip_sd", episode.get("skip_sd"), steps, width),
        "table_height": None if height is None else _round(float(height)),
    }


def _looks(number: int, example: Mapping) -> dict[str, Any]:
    """An episode of which only positions and openings are known, with its focus and what that was chosen by."""
    focus, names = tuple(map(str, example["focus"])), tuple(map(str, example["entities"]))
    steps = len(example["observation"]) - 1
    if len(focus) != steps:
        raise InputError(f"gaze example {number} has {len(focus)} steps of focus: wanted {steps}, one for each step")
    for name in focus:
        check_choice("focus", name, names)
    unknown = {
        "observation_names": [""] * len(example["observation"][0]),
        "action_names": [],
        "action": np.zeros((steps, 0)),
        "gate": np.zeros((steps, 0)),
        "strength": None,
        "boundary": None,
    }
    return {
        **_episode(number, {**unknown, **example}),
        "group": f"{example['variant']}, λ = {example['sparsity']:g}",
        "condition": str(example["condition"]),
        "end": example.get("end"),
        "focus": [names.index(name) for name in focus],
        **{name: _rounded(number, name, example[name], steps, len(names)) for name in ("intra", "inter")},
    }


def _rounded(number: int, name: str, given: Any, rows: int | None, columns: int | None) -> Any:
    """Rows of rounded numbers, after a look at their shape; what is not finite becomes None, and None stays so."""
    if given is None:
        return None
    array = np.asarray(given, float)
    if array.ndim == 1 and array.size == 0:  # no rows at all, or rows of nothing
        array = array.reshape(rows or 0, 0)
    wanted = tuple(size if here is None else here for here, size in zip((rows, columns), array.shape, strict=False))
    if array.ndim != 2 or array.shape != wanted:
        raise InputError(f"episode {number} has {name} of shape {array.shape}: wanted ({rows or 'T + 1'}, {columns})")
    return [[_round(value) for value in row] for row in array.tolist()]


def _round(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def _marks(number: int, name: str, given: Any, steps: int) -> list[bool] | None:
    """At which steps something is so, as numbers of steps."""
    if given is None:
        return None
    marks = np.asarray(given, bool)
    if marks.shape != (steps,):
        raise InputError(f"episode {number} has {name} of shape {marks.shape}: wanted ({steps},), one for each step")
    return marks.tolist()


def _json(given: Any) -> str:
    """JSON that can stand within a script element, whatever its texts hold."""
    return json.dumps(given, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
