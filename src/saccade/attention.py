"""Where to look: a focus on one of several things, what is seen with it, and the focus that leaves least uncertainty.

Things are the entities of `Sequences`: named groups of an observation's dimensions, such as the hand's position. The
focus is one-hot over them, in their order, and a model's `context`. What is not attended is seen through noise.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from saccade import events, sequences
from saccade.checks import InputError, check_array, check_choice, check_finite
from saccade.models import EventModel
from saccade.networks import Gaussian
from saccade.sequences import Sequences

Measure = Literal["variance", "entropy"]
Protocol = Literal["paper", "original"]
Numbers = Array | np.ndarray
Entities = Mapping[str, tuple[int, ...]]

NOISE = 0.05
"""Standard deviation of what is added to things that are not attended (section IV of the paper)."""
TINY = 1e-9
"""Below this no variance is scaled, for it might become 0."""
CHANGES = 5
"""How often the focus changes in a training sequence (section IV)."""

# --- What is seen --------------------------------------------------------------------------------------------------


def unattended(entities: Entities, size: int) -> Float[np.ndarray, "entities observation"]:
    """For each entity, 1 where a dimension is noisy while it is attended: those of other entities, else 0."""
    if len(entities) < 2:
        raise InputError(f"entities are {dict(entities)}: wanted 2 or more to choose from, in Sequences.entities")
    own = np.zeros((len(entities), size), bool)
    for row, (name, dimensions) in zip(own, entities.items(), strict=True):
        if not dimensions or not all(0 <= one < size for one in dimensions):
            raise InputError(f"entity {name!r} has dimensions {dimensions}: wanted some of 0 to {size - 1}")
        row[list(dimensions)] = True
    return (own.any(0) & ~own).astype(np.float32)


def random_focus(
    key: PRNGKeyArray, steps: int, batch: int, entities: int, changes: int = CHANGES
) -> Float[Array, "steps batch entities"]:
    """A focus that changes at so many random steps of each sequence, each time to any of the entities."""
    when_key, where_key = jax.random.split(key)
    rank = jax.random.uniform(when_key, (steps - 1, batch)).argsort(axis=0).argsort(axis=0)
    changed = jnp.concatenate([jnp.zeros((1, batch), bool), rank < changes])
    where = jax.random.randint(where_key, (changes + 1, batch), 0, entities)
    return jax.nn.one_hot(jnp.take_along_axis(where, changed.cumsum(0), axis=0), entities)


def seen(
    observation: Float[Array, "*batch observation"],
    focus: Float[Array, "*batch entities"],
    noise: Float[Array, "*batch observation"],
    unattended: Float[Numbers, "entities observation"],
) -> Float[Array, "*batch observation"]:
    """The observation as it looks with this focus: noise on the entities that are not attended."""
    return observation + noise * (focus @ jnp.asarray(unattended, observation.dtype))


def look_around(
    key: PRNGKeyArray,
    observation: Float[Array, "time batch observation"],
    unattended: Float[Numbers, "entities observation"],
    *,
    changes: int = CHANGES,
    noise: float = NOISE,
) -> tuple[Float[Array, "time batch observation"], Float[Array, "time batch entities"]]:
    """The observations as they look with a focus that changes at random, as in training, and that focus."""
    focus_key, noise_key = jax.random.split(key)
    steps, batch, _ = observation.shape
    focus = random_focus(focus_key, steps, batch, len(unattended), changes).astype(observation.dtype)
    noises = noise * jax.random.normal(noise_key, observation.shape, observation.dtype)
    return seen(observation, focus, noises, unattended), focus


# --- Where to look -------------------------------------------------------------------------------------------------


class Look(eqx.Module):
    """What came of choosing a focus: at one step, or, with time as first axis, at all."""

    focus: Float[Array, "*batch entities"]
    """One-hot, the chosen one."""
    intra: Float[Array, "*batch entities"]
    """How uncertain the next observation would be with a focus on each entity."""
    inter: Float[Array, "*batch entities"]
    """The same of the observation at the next boundary."""
    action: Float[Array, "*batch action"] | None
    latent: Float[Array, "*batch latent"]
    gate: Float[Array, "*batch latent"]
    observation: Gaussian
    """The next one as predicted with the chosen focus."""
    boundary: Gaussian
    """What is predicted for the next boundary."""


class Scaling(eqx.Module):
    """What predicted variances are to be multiplied by, with a focus on each entity, so that they can be believed."""

    observation: Float[Array, "entities observation"]
    boundary: Float[Array, "entities observation"]


def uncertainty(predicted: Gaussian, about: Sequence[int], measure: Measure = "variance") -> Float[Array, "*batch"]:
    """How uncertain a prediction is about some dimensions: the sum of their variances, or their entropy."""
    check_choice("measure", measure, ("variance", "entropy"))
    variance = predicted.variance[..., jnp.array(about)]
    if measure == "entropy":
        variance = 0.5 * jnp.log(2 * jnp.pi * jnp.e * variance)
    return variance.sum(-1)


def begin(
    model: EventModel,
    observation: Float[Array, "*batch observation"],
    noise: Float[Array, "*batch observation"],
    action: Float[Array, "*batch action"] | None,
    unattended: Float[Numbers, "entities observation"],
) -> Float[Array, "entities *batch latent"]:
    """The latent state before the first step, as it would be with each focus: what `choose` starts from."""
    views = _views(observation, noise, unattended)
    return _begun(model, views, action)


def choose(
    model: EventModel,
    latent: Float[Array, "entities *batch latent"],
    observation: Float[Array, "*batch observation"],
    noise: Float[Array, "*batch observation"],
    action: Float[Array, "*batch action"] | None = None,
    *,
    unattended: Float[Numbers, "entities observation"],
    about: Sequence[int],
    intra: float | Float[Numbers, "*#batch"] = 0.5,
    measure: Measure = "variance",
    protocol: Protocol = "paper",
    scaling: Scaling | None = None,
) -> tuple[Float[Array, "entities *batch latent"], Look]:
    """One step: tries every focus, takes the one that leaves least uncertainty; the latent state to go on from.

    Without an `action` the model infers its own from what it sees with that focus. `noise` is what would be added to
    unattended entities, the same for all that are compared. `intra` (γ) weighs the next observation against the next
    boundary: 1 is the former alone, 0 the latter. `scaling` is what variances are multiplied by before.

    The latent state is kept for each focus because the authors' own evaluation (`protocol="original"`) compares as if
    the whole past had been seen with it; with the paper's protocol all are what the chosen ones led to.
    """
    check_choice("protocol", protocol, ("paper", "original"))
    inner = model.forward_inverse
    views = _views(observation, noise, unattended)
    if action is not None:
        action = _for_each(action, views)
    elif inner.inverse is not None:
        action = inner.act(views, latent).mean
    look = _compared(model, latent, views, action, about, intra, measure, scaling)
    if protocol == "original":
        return inner.step(latent, views, action, _for_each(look.focus, views)).latent, look
    return _for_each(look.latent, views), look


def _compared(model: EventModel, latent, views, action, about, intra, measure, scaling) -> Look:
    """What comes of the best focus, the latent state, view and action with each being given."""
    entities, batch = len(views), views.shape[1:-1]
    tried = jnp.eye(entities, dtype=views.dtype).reshape(entities, *[1] * len(batch), entities)
    tried = jnp.broadcast_to(tried, (entities, *batch, entities))
    ahead = model.forward_inverse.step(latent, views, action, tried)
    said = [ahead.observation, model.skip(views, ahead.latent, tried)]
    if scaling is not None:
        said = [_scaled(*pair) for pair in zip(said, (scaling.observation, scaling.boundary), strict=True)]
    observation, boundary = said
    within, between = (uncertainty(one, about, measure) for one in said)
    best = (intra * within + (1 - intra) * between).argmin(0)

    def chosen(array):
        return jnp.take_along_axis(array, best[None, ..., None], axis=0)[0]

    action, latent, gate, observation, boundary = jax.tree.map(
        chosen, (action, ahead.latent, ahead.gate, observation, boundary)
    )
    within, between = (jnp.moveaxis(one, 0, -1) for one in (within, between))
    focus = jax.nn.one_hot(best, entities, dtype=views.dtype)
    return Look(focus, within, between, action, latent, gate, observation, boundary)


def _scaled(predicted: Gaussian, by) -> Gaussian:
    """With its variances multiplied by what each entity's focus, the first axis, wants."""
    return Gaussian(predicted.mean, predicted.variance * by.reshape(len(by), *[1] * (predicted.mean.ndim - 2), -1))


def _begun(model: EventModel, views, action) -> Float[Array, "entities *batch latent"]:
    if action is not None:
        views = jnp.concatenate([_for_each(action, views), views], axis=-1)
    return model.forward_inverse.initial(views)


def _views(observation, noise, unattended) -> Float[Array, "entities *batch observation"]:
    """What would be seen with a focus on each entity."""
    others = jnp.asarray(unattended, observation.dtype)
    return observation + noise * others.reshape(len(others), *[1] * (observation.ndim - 1), -1)


def _for_each(array, like):
    """The same array for each entity."""
    return jnp.broadcast_to(array, (len(like), *array.shape))


def watch(
    model: EventModel,
    observation: Float[Array, "time *batch observation"],
    first_action: Float[Array, "*batch action"] | None = None,
    *,
    entities: Entities,
    about: Sequence[int],
    key: PRNGKeyArray,
    intra: float | Float[Numbers, "*#batch"] = 0.5,
    measure: Measure = "variance",
    noise: float = NOISE,
    protocol: Protocol = "paper",
    scaling: Scaling | None = None,
) -> Look:
    """Where a model looks while it watches sequences: a focus at every step, each by `choose`.

    Only the first action is given, all later ones are the model's own. The latent state is carried from step to step,
    so that a step costs one model step for each entity (two with `protocol="original"`), however long the past is.
    """
    given = _checked(model, observation, first_action, entities, about, key, noise)
    return _watch(*given, jnp.asarray(intra), measure, protocol, scaling)


@eqx.filter_jit
def _watch(model, observation, first_action, noises, others, about, intra, measure, protocol, scaling) -> Look:
    def step(latent, at, action=None):
        now, noise = at
        how = {"about": about, "intra": intra, "measure": measure, "protocol": protocol, "scaling": scaling}
        return choose(model, latent, now, noise, action, unattended=others, **how)

    latent = begin(model, observation[0], noises[0], first_action, others)
    latent, first = step(latent, (observation[0], noises[0]), first_action)
    _, later = jax.lax.scan(step, latent, (observation[1:], noises[1:]))
    return jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), first, later)


def watch_replayed(
    model: EventModel,
    observation: Float[Array, "time *batch observation"],
    first_action: Float[Array, "*batch action"] | None = None,
    *,
    entities: Entities,
    about: Sequence[int],
    key: PRNGKeyArray,
    intra: float | Float[Numbers, "*#batch"] = 0.5,
    measure: Measure = "variance",
    noise: float = NOISE,
    protocol: Protocol = "paper",
    scaling: Scaling | None = None,
) -> Look:
    """The same as `watch`, each step's past replayed from the sequence's start: its reference, and slower."""
    given = _checked(model, observation, first_action, entities, about, key, noise)
    return _replayed(*given, jnp.asarray(intra), measure, protocol, scaling)


@eqx.filter_jit
def _replayed(model, observation, first_action, noises, others, about, intra, measure, protocol, scaling) -> Look:
    inner, time = model.forward_inverse, len(observation)

    def past(step, focus):
        """What was seen at an earlier step: with the focus it had, or, the authors' way, with each that is tried."""
        if protocol == "original":
            return _views(observation[step], noises[step], others)
        return _for_each(seen(observation[step], focus[step], noises[step], others), others)

    def action_at(step, view, latent):
        if first_action is None:
            return None
        return jnp.where(step == 0, first_action, inner.act(view, latent).mean)

    def look(focus, step):
        views = _views(observation[step], noises[step], others)
        begun = jnp.where(step == 0, views, past(0, focus))
        latent = _begun(model, begun, first_action)

        def again(earlier, latent):
            view = past(earlier, focus)
            action = action_at(earlier, view, latent)
            return inner.step(latent, view, action, _for_each(focus[earlier], others)).latent

        latent = jax.lax.fori_loop(0, step, again, latent)
        found = _compared(model, latent, views, action_at(step, views, latent), about, intra, measure, scaling)
        return focus.at[step].set(found.focus), found

    nowhere = jnp.zeros((*observation.shape[:-1], len(others)), observation.dtype)
    return jax.lax.scan(look, nowhere, jnp.arange(time))[1]


def _checked(model: EventModel, observation, first_action, entities: Entities, about, key, noise):
    """The inputs of `watch`, checked, with the noise drawn and the entities as an array."""
    wanted = model.settings
    check_array("observation", observation, wanted.observation, None, "(time, ..., observation)")
    observation = jnp.asarray(observation)
    if observation.ndim < 2 or len(observation) < 2:
        raise InputError(f"observation has shape {observation.shape}: wanted (time, ..., observation), 2 steps or more")
    check_finite("observation", observation)
    if wanted.context != len(entities):
        raise InputError(
            f"the model has {wanted.context} context inputs for the entities {', '.join(entities)}: wanted one for "
            "each; train it with a recipe whose focus_changes is set"
        )
    if wanted.action:
        check_array("first_action", first_action, wanted.action, observation.shape[1:-1], "(..., action)")
        check_finite("first_action", first_action)
        first_action = jnp.asarray(first_action)
    about = tuple(int(one) for one in about)
    if not about or not all(0 <= one < wanted.observation for one in about):
        raise InputError(f"about is {about}: wanted dimensions of the observation, 0 to {wanted.observation - 1}")
    noises = noise * jax.random.normal(key, observation.shape, observation.dtype)
    others = jnp.asarray(unattended(entities, wanted.observation), observation.dtype)
    return model, observation, first_action if wanted.action else None, noises, others, about


# --- When things are looked at, and when they happen, in NumPy -------------------------------------------------------


def arrival(focus: Float[Numbers, "time *batch entities"]) -> Int[np.ndarray, "*batch entities"]:
    """The step, counted from 1, at which each entity is first attended; the number of steps if it never is."""
    focus = np.asarray(focus) > 0
    return np.where(focus.any(0), focus.argmax(0) + 1, len(focus))


def first_near(
    observation: Float[Numbers, "time *batch observation"],
    one: Sequence[int],
    other: Sequence[int],
    within: float,
) -> Float[np.ndarray, "*batch"]:
    """The step, counted from 1, at which two positions are first nearer than `within`; NaN if they never are."""
    observation = np.asarray(observation)
    near = np.linalg.norm(observation[..., list(one)] - observation[..., list(other)], axis=-1) < within
    return np.where(near.any(0), near.argmax(0) + 1.0, np.nan)


# --- Whether predicted uncertainty can be believed -----------------------------------------------------------------


def calibration(
    model: EventModel,
    over: Sequences,
    *,
    key: PRNGKeyArray,
    boundary: Bool[np.ndarray, "time count"] | None = None,
    scaling: Scaling | None = None,
    changes: int = CHANGES,
    noise: float = NOISE,
) -> list[dict[str, Any]]:
    """How large squared errors are in units of the predicted variance, with a focus that changes at random.

    A row for each network, attended entity and dimension; `ratio` is the mean of (o - μ)² / σ²: 1 is calibrated, more
    is overconfident. `variance` is the mean predicted one, `count` how many steps it is about. `boundary` says what the
    skip network was trained to predict, if not where gates open. `scaling` is what variances are multiplied by.
    """
    found = _totals(model, over, key, boundary, changes, noise)
    by = (1.0, 1.0) if scaling is None else (np.asarray(scaling.observation), np.asarray(scaling.boundary))
    return [
        {
            "network": network,
            "attended": entity,
            "dimension": dimension,
            "ratio": float(ratio[row, column]) if count[row] else None,
            "variance": float(variance[row, column]) if count[row] else None,
            "count": int(count[row]),
        }
        for (network, (own, spread, count)), factor in zip(found.items(), by, strict=True)
        for ratio, variance in [(own / factor, spread * factor)]
        for row, entity in enumerate(over.entities)
        for column, dimension in enumerate(over.observation_names)
    ]


def scaling(
    model: EventModel,
    over: Sequences,
    *,
    key: PRNGKeyArray,
    boundary: Bool[np.ndarray, "time count"] | None = None,
    changes: int = CHANGES,
    noise: float = NOISE,
) -> Scaling:
    """What a model's variances have to be multiplied by for all ratios of `calibration` to be 1 on these sequences.

    Take validation sequences. Training leaves variances off: those of what is known almost exactly cannot become
    smaller than 1e-6, and those of a skip network that has begun to learn its sequences by heart are too small.
    """
    found = _totals(model, over, key, boundary, changes, noise)
    ratios = (np.where(count[:, None] > 0, ratio, 1.0) for ratio, _, count in found.values())
    return Scaling(*(jnp.asarray(np.maximum(ratio, TINY), jnp.float32) for ratio in ratios))


def _totals(model, over: Sequences, key, boundary, changes, noise, chunk: int = 960) -> dict[str, tuple]:
    """By network: mean ratios, mean variances and counts, for each attended entity."""
    others = unattended(over.entities, over.sizes["observation"])
    totals = None
    for first in range(0, len(over), chunk):
        some = slice(first, first + chunk)
        batch = sequences.batch(over, some)
        given = None if boundary is None else boundary[:, some]
        found = _errors(model, batch, given, others, jax.random.fold_in(key, first), changes, noise)
        found = jax.tree.map(lambda array: np.asarray(array, np.float64), found)
        totals = found if totals is None else jax.tree.map(np.add, totals, found)
    assert totals is not None  # there is at least one sequence

    def mean(total, count):
        return total / np.maximum(count, 1)[:, None]

    return {
        network: (mean(ratio, count), mean(variance, count), count)
        for network, (ratio, variance, count) in totals.items()
    }


@eqx.filter_jit
def _errors(model, batch, boundary, others, key, changes, noise):
    """By network: sums of squared errors over variance, of variances, and counts, for each attended entity."""
    clean = jnp.asarray(batch.observation)
    views, focus = look_around(key, clean, others, changes=changes, noise=noise)
    predicted = model.forward_inverse.observe(views, _or_none(batch.action), focus, mask=batch.mask)
    exists = jnp.ones(focus.shape[:2], bool) if batch.mask is None else batch.mask
    if boundary is None:
        boundary = events.boundaries(predicted.gate, batch.mask)
    target = events.skip_targets(
        jnp.asarray(batch.observation), boundary, from_opening=model.settings.skip_from_opening
    )
    ahead = model.skip(views[:-1], predicted.latent[:-1], focus[:-1])

    def sums(said: Gaussian, target, focus, exists):
        by = focus * exists[..., None]
        ratio = jnp.where(exists[..., None], (target - said.mean) ** 2 / said.variance, 0)
        total = (jnp.einsum("tbe,tbo->eo", by, array) for array in (ratio, said.variance))
        return *total, by.sum((0, 1))

    return {
        "forward": sums(predicted.observation, batch.next_observation, focus, exists),
        "skip": sums(ahead, target, focus[:-1], exists[1:]),
    }


def _or_none(array):
    return array if array.shape[-1] else None
