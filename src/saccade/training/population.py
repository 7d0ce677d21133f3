"""Many models in training, as one program: what an update is, and how it is run over models and devices.

`update` is one update of one model, to be read top to bottom; `Group` runs it for models of the same shapes. Every
random number of a model follows from its seed and the number of the update, so that neither the models beside it nor
interruptions change anything.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, Integer, PRNGKeyArray

from saccade import attention, events, sequences
from saccade.checks import InputError
from saccade.models import (
    EventModel,
    ModelSettings,
    Prediction,
    forward_inverse_loss,
    measure,
    on_standardised,
    skip_loss,
)
from saccade.networks import beta_nll
from saccade.sequences import Sequences
from saccade.training.recipe import PER_MODEL, Member, Recipe


class Numbers(eqx.Module):
    """What may differ between models that one program trains; of one model, or of several, stacked."""

    seed: Integer[Array, "*models"]
    sparsity: Float[Array, "*models"]
    learning_rate: Float[Array, "*models"]
    skip_learning_rate: Float[Array, "*models"]
    warmup: Float[Array, "*models"]
    sparsity_warmup: Float[Array, "*models"]
    final: Float[Array, "*models"]
    epsilon: Float[Array, "*models"]
    clip: Float[Array, "*models"]
    skip_clip: Float[Array, "*models"]
    beta: Float[Array, "*models"]


class Training(eqx.Module):
    """One model in training: its parameters (for standardised inputs, if the recipe says so) and its optimisers'."""

    model: EventModel
    moments: optax.OptState
    skip_moments: optax.OptState


class Data(eqx.Module):
    """Sequences on a device, with what is needed to draw batches and to standardise."""

    observation: Float[Array, "count rows observation"]
    action: Float[Array, "count time action"]
    context: Float[Array, "count time context"] | None
    length: Int[Array, " count"] | None
    unattended: Float[Array, "entities observation"] | None
    """Which dimensions are noisy with a focus on each entity, if the recipe has one."""
    boundary: Bool[Array, "count time"] | None
    """Where the skip network's targets lie, if that is not for gates to say."""
    pool: Int[Array, " pooled"]
    """Numbers of sequences, kind by kind."""
    pool_start: Int[Array, " kinds"]
    pool_size: Int[Array, " kinds"]
    observation_scaling: tuple[Float[Array, " observation"], Float[Array, " observation"]]
    action_scaling: tuple[Float[Array, " action"], Float[Array, " action"]]


class Batch(eqx.Module):
    """Sequences in the layout that models want."""

    observation: Float[Array, "time batch observation"]
    """As it looks with the focus, if there is one."""
    action: Float[Array, "time batch action"] | None
    next_observation: Float[Array, "time batch observation"]
    context: Float[Array, "time batch context"] | None
    mask: Array | None
    clean: Float[Array, "time batch observation"]
    """As it is."""
    boundary: Bool[Array, "time batch"] | None


# --- One model -----------------------------------------------------------------------------------------------------


def start(numbers: Numbers, settings: ModelSettings) -> Training:
    """An untrained model."""
    model = EventModel(settings, key=jax.random.key(numbers.seed))
    optimiser = _optimiser(numbers.clip, numbers.epsilon)
    return Training(model, *(optimiser.init(network) for network in (model.forward_inverse, model.skip)))


def finished(training: Training, data: Data, recipe: Recipe) -> EventModel:
    """The model as it stands, for plain inputs."""
    return _plain(training.model, data, recipe)


def update(
    training: Training, numbers: Numbers, number: Int[Array, ""], data: Data, recipe: Recipe
) -> tuple[Training, dict[str, Float[Array, ""]]]:
    """One update of both networks on one batch, and what was met on the way."""
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), numbers.seed), number)
    batch_key, noise_key, skip_key = jax.random.split(key, 3)
    batch = _looked_at(draw(data, recipe.batch, batch_key), data, recipe, jax.random.fold_in(key, 3))

    def loss(forward_inverse):
        model = _plain(eqx.tree_at(lambda it: it.forward_inverse, training.model, forward_inverse), data, recipe)
        predicted = model.forward_inverse.observe(
            batch.observation, batch.action, batch.context, mask=batch.mask, key=noise_key
        )
        told = forward_inverse_loss(
            predicted,
            batch.next_observation,
            batch.action,
            sparsity=numbers.sparsity * _rise(number, numbers.sparsity_warmup),
            beta=numbers.beta,
            mask=batch.mask,
        )
        return told, measure(predicted, batch.next_observation, batch.action, mask=batch.mask)

    def descend(network, gradient, moments, clip, learning_rate):
        steps, moments = _optimiser(clip, numbers.epsilon).update(gradient, moments)
        rate = _schedule(numbers, number, recipe) * learning_rate
        return jax.tree.map(lambda parameter, step: parameter - rate * step, network, steps), moments

    now = training.model
    (value, measures), gradient = jax.value_and_grad(loss, has_aux=True)(now.forward_inverse)
    met = {"loss": value, "gradient_norm": optax.tree.norm(gradient), **measures}
    forward_inverse, moments = descend(
        now.forward_inverse, gradient, training.moments, numbers.clip, numbers.learning_rate
    )

    def loss_of_skip(skip):
        model = _plain(eqx.tree_at(lambda it: it.skip, now, skip), data, recipe)
        return _skip_loss(model, batch, recipe, numbers.beta, skip_key)

    skip, skip_moments, met["skip_loss"] = now.skip, training.skip_moments, jnp.zeros(())
    if recipe.skip_steps != 0:
        met["skip_loss"], gradient = jax.value_and_grad(loss_of_skip)(now.skip)
        skip, skip_moments = descend(
            now.skip, gradient, training.skip_moments, numbers.skip_clip, numbers.skip_learning_rate
        )
    model = eqx.tree_at(lambda it: (it.forward_inverse, it.skip), now, (forward_inverse, skip))
    return Training(model, moments, skip_moments), met


def _skip_loss(model: EventModel, batch: Batch, recipe: Recipe, beta, key: PRNGKeyArray) -> Float[Array, ""]:
    """The skip network's loss on what the gates do at this moment, without noise and without a gradient to them."""
    inner = jax.lax.stop_gradient(model.forward_inverse)
    seen = inner.observe(batch.observation, batch.action, batch.context, mask=batch.mask)
    target = _skip_target(model, seen, batch)
    if recipe.skip_steps is None:
        context = None if batch.context is None else batch.context[:-1]
        ahead = model.skip(batch.observation[:-1], seen.latent[:-1], context)
        return skip_loss(ahead, target, beta=beta, mask=batch.mask)
    steps = len(batch.observation) if batch.mask is None else batch.mask.sum(0)
    at = jax.random.randint(key, (recipe.skip_steps, batch.observation.shape[1]), 0, steps - 1)[..., None]

    def chosen(array):
        return jnp.take_along_axis(array, at, axis=0)

    context = None if batch.context is None else chosen(batch.context)
    ahead = model.skip(chosen(batch.observation), chosen(seen.latent), context)
    return beta_nll(ahead, chosen(target), beta).mean()


def draw(data: Data, size: int, key: PRNGKeyArray) -> Batch:
    """A batch with as many sequences of each kind, drawn with replacement."""
    kinds = len(data.pool_size)
    at = jax.random.randint(key, (kinds, size // kinds), 0, data.pool_size[:, None]) + data.pool_start[:, None]
    return _batch(data, data.pool[at.reshape(-1)])


def _batch(data: Data, index: Int[Array, " batch"]) -> Batch:
    def time_major(array):
        return None if array is None or not array.shape[-1] else jnp.swapaxes(array[index], 0, 1)

    observation = jnp.swapaxes(data.observation[index], 0, 1)
    mask = None
    if data.length is not None:
        mask = jnp.arange(len(observation) - 1)[:, None] < data.length[index]
    now, boundary = observation[:-1], None if data.boundary is None else data.boundary[index].T
    return Batch(now, time_major(data.action), observation[1:], time_major(data.context), mask, now, boundary)


def _looked_at(batch: Batch, data: Data, recipe: Recipe, key: PRNGKeyArray) -> Batch:
    """The batch as it looks with a random focus, which becomes its context: unchanged if the recipe has none.

    Both networks, the inverse model too, see what the focus lets them see; what they should predict stays clean.
    """
    if data.unattended is None or recipe.focus_changes is None:
        return batch
    look = {"changes": recipe.focus_changes, "noise": recipe.focus_noise}
    observation, focus = attention.look_around(key, batch.clean, data.unattended, **look)
    return replace(batch, observation=observation, context=focus)


def _skip_target(model: EventModel, seen: Prediction, batch: Batch) -> Float[Array, "time_but_last batch observation"]:
    """What the skip network should say: where the gates of the model opened, or where the recipe wants it."""
    boundary = events.boundaries(seen.gate, batch.mask) if batch.boundary is None else batch.boundary
    return events.skip_targets(batch.clean, boundary, from_opening=model.settings.skip_from_opening)


def _plain(model: EventModel, data: Data, recipe: Recipe) -> EventModel:
    return on_standardised(model, data.observation_scaling, data.action_scaling) if recipe.standardise else model


def _optimiser(clip, epsilon) -> Any:
    return optax.chain(optax.clip_by_global_norm(clip), optax.scale_by_adam(eps=epsilon))


def _schedule(numbers: Numbers, number, recipe: Recipe) -> Float[Array, ""]:
    """The share of the learning rates at this update: a linear rise, times a cosine from 1 to `final`."""
    decay = 0.5 * (1 + jnp.cos(jnp.pi * number / recipe.updates))
    return _rise(number, numbers.warmup) * (numbers.final + (1 - numbers.final) * decay)


def _rise(number, updates) -> Float[Array, ""]:
    """From near 0 to 1 over so many updates; 1 at once for 0 of them."""
    return jnp.minimum((number + 1) / jnp.maximum(updates, 1), 1)


def judge(training: Training, data: Data, recipe: Recipe, size: int) -> dict[str, Float[Array, ""]]:
    """The measures of a model over all sequences of the data, `size` of them at a time, which divides their number.

    Of a skip network that is not trained there are none.
    """
    model = _plain(training.model, data, recipe)

    def of_some(index):
        batch = _looked_at(_batch(data, index), data, recipe, jax.random.fold_in(jax.random.key(0), index[0]))
        seen = model.forward_inverse.observe(batch.observation, batch.action, batch.context, mask=batch.mask)
        found = measure(seen, batch.next_observation, batch.action, mask=batch.mask)
        exists = jnp.ones(seen.gate.shape[:-1], bool) if batch.mask is None else batch.mask
        if recipe.skip_steps != 0:
            target = _skip_target(model, seen, batch)
            context = None if batch.context is None else batch.context[:-1]
            ahead = model.skip(batch.observation[:-1], seen.latent[:-1], context)
            found["skip_nll"] = skip_loss(ahead, target, beta=0.0, mask=batch.mask)
            error = ((ahead.mean - target) ** 2).mean(-1)
            found["skip_mse"] = jnp.where(exists[1:], error, 0).sum() / exists[1:].sum()
        return found, exists.sum(), exists[1:].sum()

    parts, steps, later = jax.lax.map(of_some, jnp.arange(len(data.observation)).reshape(-1, size))
    # Each part counts by its steps: of actions and skips there is one fewer in each sequence.
    return {
        name: jnp.average(values, weights=later if name.startswith(("action", "skip")) else steps)
        for name, values in parts.items()
    }


# --- Many models ---------------------------------------------------------------------------------------------------


class Group:
    """Models of the same shapes in training, spread over the devices.

    On CPUs each device takes one model at a time through a whole chunk of updates, so that its parameters stay in the
    cache; elsewhere all models take every update together. `lanes` says how many at a time.
    """

    def __init__(
        self,
        members: Sequence[Member],
        train: Sequences,
        validation: Sequences,
        *,
        lanes: int | None = None,
    ):
        self.members = tuple(members)
        settings, recipe = self.members[0].shape
        if any(member.shape != (settings, recipe) for member in members):
            raise InputError("members differ in more than seed, λ and learning rates: make a group for each shape")
        for name, size in model_sizes(train, recipe).items():
            if size != getattr(settings, name):
                raise InputError(f"the data's {name} has {size} dimensions: the model has {getattr(settings, name)}")
        self.devices = jax.local_devices()
        self.lanes = lanes or (1 if self.devices[0].platform == "cpu" else len(self.members))
        # Some seconds' work between two looks at the clock, the keyboard and the numbers.
        self.chunk = 100 if self.lanes > 1 else max(10, min(100, 500 // len(self.members)))
        evaluated = validation[_spread(len(validation), recipe.evaluate_on)]
        scaling = sequences.standardise(train)
        size = _batch_size(len(evaluated), recipe.batch)
        self._train = [jax.device_put(on_device(train, recipe, scaling), device) for device in self.devices]
        self._validation = [jax.device_put(on_device(evaluated, recipe, scaling), device) for device in self.devices]

        def advance(training, numbers, first, count, data):
            def one(number, state):
                training, total = state
                training, met = update(training, numbers, number, data, recipe)
                return training, jax.tree.map(jnp.add, total, met)

            shapes = jax.eval_shape(partial(update, recipe=recipe), training, numbers, first, data)[1]
            nothing = jax.tree.map(lambda met: jnp.zeros(met.shape, met.dtype), shapes)
            training, total = jax.lax.fori_loop(first, first + count, one, (training, nothing))
            return training, jax.tree.map(lambda value: value / count, total)

        def over_models(run, axes):
            if self.lanes > 1:
                return jax.vmap(run, axes)

            def one(*given):  # without an axis of length 1, around which compilers copy arrays
                own = [
                    arrays if axis is None else jax.tree.map(lambda array: array[0], arrays)
                    for arrays, axis in zip(given, axes, strict=True)
                ]
                return jax.tree.map(lambda array: array[None], run(*own))

            return one

        self._start = jax.jit(jax.vmap(partial(start, settings=settings)))
        self._advance = jax.jit(over_models(advance, (0, 0, None, None, None)), donate_argnums=0)
        self._judge = jax.jit(over_models(partial(judge, recipe=recipe, size=size), (0, None)))
        self._finished = jax.jit(jax.vmap(partial(finished, recipe=recipe), (0, None)))
        self._slices = [slice(first, first + self.lanes) for first in range(0, len(self.members), self.lanes)]
        self._numbers = [
            jax.device_put(numbers_of(self.members[some]), self._device(which))
            for which, some in enumerate(self._slices)
        ]

    def start(self) -> list[Training]:
        """All models, untrained: a list with the models of each slice stacked."""
        return self._each(lambda which, _: self._start(self._numbers[which]))

    def advance(self, trainings: list[Training], first: int, count: int) -> tuple[list[Training], dict[str, Any]]:
        """All models after `count` more updates, the first of them number `first`, and the mean of what was met.

        The arrays of `trainings` are used up.
        """
        numbers = np.int32(first), np.int32(count)
        done = self._each(
            lambda which, device: self._advance(trainings[which], self._numbers[which], *numbers, self._train[device])
        )
        return [training for training, _ in done], _joined([met for _, met in done])

    def judge(self, trainings: list[Training]) -> dict[str, Any]:
        """The measures of all models on the validation sequences, an entry for each model."""
        return _joined(self._each(lambda which, device: self._judge(trainings[which], self._validation[device])))

    def models(self, trainings: list[Training]) -> list[EventModel]:
        """The models as they stand, for plain inputs, their arrays NumPy's."""
        stacked = self._each(lambda which, device: self._finished(trainings[which], self._train[device]))
        return [one for some in stacked for one in unstack(jax.device_get(some))]

    def stack(self, trainings: list[Training]) -> Training:
        """All models in one tree of NumPy arrays, the first axis counting models."""
        return jax.tree.map(lambda *arrays: np.concatenate([np.asarray(array) for array in arrays]), *trainings)

    def unstack(self, stacked: Training) -> list[Training]:
        """What `stack` was given."""
        return [
            jax.device_put(jax.tree.map(lambda array, some=some: array[some], stacked), self._device(which))
            for which, some in enumerate(self._slices)
        ]

    def skeleton(self) -> Training:
        """What `stack` gives, as shapes without numbers."""
        return jax.eval_shape(jax.vmap(partial(start, settings=self.members[0].settings)), numbers_of(self.members))

    def _each(self, run: Callable[[int, int], Any]) -> list[Any]:
        """Runs something for every slice of models, each device its own slices in turn; results are waited for."""
        results: list[Any] = [None] * len(self._slices)

        def on(device: int):
            with jax.default_device(self.devices[device]):
                for which in range(device, len(self._slices), len(self.devices)):
                    results[which] = jax.block_until_ready(run(which, device))

        with ThreadPoolExecutor(len(self.devices)) as pool:
            list(pool.map(on, range(len(self.devices))))
        return results

    def _device(self, which: int) -> Any:
        """Where a slice of models lives."""
        return self.devices[which % len(self.devices)]


def model_sizes(given: Sequences, recipe: Recipe) -> dict[str, int]:
    """How many dimensions a model's observation, action and context have; the context is the focus, if there is one."""
    if recipe.focus_changes is None:
        return given.sizes
    if given.context is not None:
        raise InputError("focus_changes is set for data with a context: wanted none, since the focus takes its place")
    return {**given.sizes, "context": len(given.entities)}


def numbers_of(members: Sequence[Member]) -> Numbers:
    """The members' own numbers, stacked."""

    def of(member: Member) -> dict[str, Any]:
        own = {name: getattr(member.recipe, name) for name in PER_MODEL}
        return {name: np.inf if value is None else value for name, value in own.items()} | {"sparsity": member.sparsity}

    rows = [of(member) for member in members]
    seed = jnp.array([member.seed for member in members], jnp.uint32)
    return Numbers(seed=seed, **{name: jnp.array([row[name] for row in rows], jnp.float32) for name in rows[0]})


def on_device(given: Sequences, recipe: Recipe, scaling: sequences.Scaling) -> Data:
    """The sequences as a program wants them."""
    kind = np.zeros(len(given), int) if given.kind is None else given.kind
    if recipe.batch % len(np.unique(kind)):  # no equal shares: kinds are ignored
        kind = np.zeros(len(given), int)
    sizes = np.unique(kind, return_counts=True)[1]

    def floats(mean, scale):
        return jnp.asarray(mean, jnp.float32), jnp.asarray(scale, jnp.float32)

    def without_padding(array: np.ndarray) -> Array:  # in which anything may stand
        if given.length is None:
            return jnp.asarray(array)
        exists = np.arange(array.shape[1]) < given.length[:, None] + array.shape[1] - given.time
        return jnp.asarray(np.where(exists[..., None], array, 0))

    unattended = None
    if recipe.focus_changes is not None:
        unattended = jnp.asarray(attention.unattended(given.entities, given.sizes["observation"]))
    boundary = wanted_boundaries(given, recipe)

    return Data(
        observation=without_padding(given.observation),
        action=without_padding(given.action),
        context=None if given.context is None else without_padding(given.context),
        length=None if given.length is None else jnp.asarray(given.length),
        unattended=unattended,
        boundary=None if boundary is None else jnp.asarray(boundary),
        pool=jnp.asarray(np.argsort(kind, kind="stable"), jnp.int32),
        pool_start=jnp.asarray(np.cumsum(sizes) - sizes, jnp.int32),
        pool_size=jnp.asarray(sizes, jnp.int32),
        observation_scaling=floats(scaling.observation_mean, scaling.observation_scale),
        action_scaling=floats(scaling.action_mean, scaling.action_scale),
    )


def wanted_boundaries(given: Sequences, recipe: Recipe) -> np.ndarray | None:
    """Where the recipe wants boundaries, (count, time); None where gates say it."""
    if recipe.boundaries == "learned":
        return None
    found = np.zeros((len(given), given.time), bool)
    if isinstance(recipe.boundaries, int):
        found[:, recipe.boundaries :: recipe.boundaries] = True
    elif given.event is None:
        raise InputError("boundaries are wanted true of data without events: wanted Sequences.event, or learned ones")
    else:
        before, after = given.event[:, :-1], given.event[:, 1:]
        found[:, 1:] = (before != after) & (before >= 0) & (after >= 0)
    return (found & given.mask) | (np.arange(given.time) == given.lengths[:, None] - 1)


def unstack(model: Any) -> list[Any]:
    """The single models of a stack of them."""
    count = len(jax.tree.leaves(model)[0])
    return [jax.tree.map(lambda array, index=index: array[index], model) for index in range(count)]


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}


def _spread(count: int, wanted: int | None) -> np.ndarray:
    """So many of `count` numbers, evenly spread, since kinds stand one after the other."""
    wanted = min(wanted or count, count)
    return np.arange(wanted) * count // wanted


def _batch_size(count: int, most: int) -> int:
    """The largest size up to `most` that divides the count."""
    return max(size for size in range(1, min(count, most) + 1) if count % size == 0)
