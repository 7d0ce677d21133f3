"""What to do in training: a recipe's numbers, and a population's members."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from saccade.checks import InputError, check_choice
from saccade.models import ModelSettings, preset

_HIGHEST = 2**31 - 1  # programs count in 32 bits


def _is_number(given: object, kinds: type = float) -> bool:
    return isinstance(given, int | kinds) and not isinstance(given, bool)


def _check_whole(name: str, given: Any, lowest: int) -> None:
    if not _is_number(given, int) or not lowest <= given <= _HIGHEST:
        raise InputError(f"{name} is {given!r}: wanted a whole number from {lowest} to {_HIGHEST}")


@dataclass(frozen=True)
class Recipe:
    """How a model is trained; the defaults are the paper's (section IV, appendix A, and the authors' code)."""

    name: str = "paper"
    updates: int = 1_500_000
    evaluate_every: int = 5_000
    """Updates between two evaluations, each of which also keeps the model as a milestone."""
    evaluate_on: int | None = None
    """How many validation sequences an evaluation looks at; None: all of them."""
    batch: int = 192
    standardise: bool = False
    """Whether the networks see inputs of mean 0 and deviation 1. The finished model takes plain ones either way."""
    skip_steps: int | None = None
    """At how many random steps of each sequence the skip network is trained in an update; None: all; 0: not at all."""
    learning_rate: float = 5e-4
    skip_learning_rate: float = 1e-4
    warmup: int = 0
    """Updates over which the learning rates rise from 0."""
    sparsity_warmup: int = 0
    """Updates over which λ rises from 0. Gates that close early in training, before anything is known, stay closed."""
    final: float = 1.0
    """The share of the learning rates that is left at the end of a cosine decay; 1: they stay."""
    epsilon: float = 1e-4
    """Adam's ε."""
    clip: float | None = 0.1
    """The largest norm of the forward-inverse model's gradient; None: any."""
    skip_clip: float | None = None
    beta: float = 0.5
    """The β of β-NLL."""
    focus_changes: int | None = None
    """How often a focus on one of the data's entities, an input then, changes in each sequence; None: no focus."""
    focus_noise: float = 0.05
    """Standard deviation of what is added to entities without the focus; targets stay clean."""
    boundaries: str | int = "learned"
    """What the skip network looks ahead to: where gates open (`learned`), where the data's events change (`true`), or
    every so many steps (a number)."""

    def __post_init__(self):
        if not isinstance(self.name, str) or not re.fullmatch(r"[\w.+-]+", self.name):  # it becomes part of file names
            raise InputError(f"name is {self.name!r}: wanted letters, digits and . + - _ only")
        if not isinstance(self.standardise, bool):
            raise InputError(f"standardise is {self.standardise!r}: wanted true or false")
        for name, lowest in (
            ("updates", 1),
            ("evaluate_every", 1),
            ("batch", 1),
            ("warmup", 0),
            ("sparsity_warmup", 0),
        ):
            _check_whole(name, getattr(self, name), lowest)
        for name, lowest in (("evaluate_on", 1), ("skip_steps", 0), ("focus_changes", 0)):
            if getattr(self, name) is not None:
                _check_whole(name, getattr(self, name), lowest)
        for name in ("learning_rate", "skip_learning_rate", "epsilon", "clip", "skip_clip"):
            value = getattr(self, name)
            if value is None and "clip" in name:
                continue
            if value is None or not _is_number(value) or not 0 < value < float("inf"):
                raise InputError(f"{name} is {value!r}: wanted a number above 0")
        for name in ("final", "beta"):
            value = getattr(self, name)
            if value is None or not _is_number(value) or not 0 <= value <= 1:
                raise InputError(f"{name} is {value!r}: wanted a number from 0 to 1")
        if not _is_number(self.focus_noise) or not 0 <= self.focus_noise < float("inf"):
            raise InputError(f"focus_noise is {self.focus_noise!r}: wanted a number, 0 or above")
        if isinstance(self.boundaries, str):
            check_choice("boundaries", self.boundaries, ("learned", "true"))
        else:
            _check_whole("boundaries", self.boundaries, 1)


RECIPES = {
    "paper": Recipe(),
    "fast": Recipe(
        name="fast",
        updates=20_000,
        evaluate_every=500,
        evaluate_on=1_920,
        standardise=True,
        skip_steps=4,
        learning_rate=3e-3,
        skip_learning_rate=1e-3,
        warmup=2_000,
        sparsity_warmup=1_000,
        final=0.0,
        epsilon=1e-8,
        clip=1.0,
    ),
}

PER_MODEL = (
    "learning_rate",
    "skip_learning_rate",
    "warmup",
    "sparsity_warmup",
    "final",
    "epsilon",
    "clip",
    "skip_clip",
    "beta",
)
"""Settings in which models may differ that are trained by one program; they enter it as numbers."""


def recipe(name: str = "fast", /, **changes: Any) -> Recipe:
    """The named recipe (`fast` or `paper`), with any of its settings changed."""
    check_choice("recipe", name, RECIPES)
    for change in changes:
        check_choice("recipe setting", change, tuple(setting.name for setting in fields(Recipe)))
    changed = replace(RECIPES[name], **changes)
    return changed if changed == RECIPES[name] or "name" in changes else replace(changed, name=f"{name}-changed")


@dataclass(frozen=True)
class Member:
    """One model of a population: what it is, how sparse its memory should be (λ), its seed and its recipe."""

    settings: ModelSettings
    sparsity: float
    seed: int
    recipe: Recipe

    def __post_init__(self):
        if not _is_number(self.sparsity) or not 0 <= self.sparsity < float("inf"):
            raise InputError(f"λ is {self.sparsity!r}: wanted a number, 0 or above")
        _check_whole("seed", self.seed, 0)
        if self.settings.memory == "gru" and self.sparsity:
            raise InputError(f"λ is {self.sparsity} for a GRU, which has no gates to close: wanted 0")

    @property
    def shape(self) -> tuple[ModelSettings, Recipe]:
        """What models must have in common to be trained by one program."""
        return self.settings, replace(self.recipe, name="any", **{name: getattr(Recipe, name) for name in PER_MODEL})

    @property
    def label(self) -> str:
        """A name for files and tables, such as `fast_gatel0rd_1_seed5`."""
        sparsity = "" if self.settings.memory == "gru" else f"_{self.sparsity:g}"
        return f"{self.recipe.name}_{self.settings.memory}{sparsity}_seed{self.seed}"

    def about(self) -> dict[str, Any]:
        """The member in what JSON can hold; `read_member` turns it back."""
        return asdict(self)


def read_member(about: dict[str, Any]) -> Member:
    """The member whose `about()` this is."""
    settings: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in about["settings"].items()
    }
    try:
        return Member(ModelSettings(**settings), about["sparsity"], about["seed"], Recipe(**about["recipe"]))
    except TypeError as error:
        raise InputError(f"settings unlike this version's ({error}): use the saccade that made them") from error


def members(
    recipe: Recipe,
    *,
    settings: ModelSettings | None = None,
    sparsities: Iterable[float] = (1.0,),
    gru: bool = False,
    seeds: Sequence[int] = (5,),
) -> list[Member]:
    """Every λ with every seed, all else alike; with `gru` the ablation too, its latent no smaller than the memory's."""
    settings = settings or preset()
    wanted = [Member(settings, sparsity, seed, recipe) for sparsity in sparsities for seed in seeds]
    if gru:
        wanted += [Member(replace(settings, memory="gru"), 0.0, seed, recipe) for seed in seeds]
    check_distinct(wanted)
    return wanted


def check_distinct(members: Sequence[Member]) -> None:
    """Raises unless there are members and no two would have the same name."""
    if not members:
        raise InputError("no models to train: wanted at least one λ or the GRU, and at least one seed")
    labels = [one.label for one in members]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"{label} is wanted twice: wanted each λ and seed once, and recipes of different names")
