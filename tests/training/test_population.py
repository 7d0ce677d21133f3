"""Many models as one program: an update is what the paper says, and no model is touched by the others."""

import subprocess
import sys
import textwrap
from dataclasses import replace
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiny import SETTINGS, SMALL, example, small_members, small_recipe

from saccade import EventModel, preset, sequences
from saccade.checks import InputError
from saccade.models import Prediction, forward_inverse_loss, skip_loss
from saccade.networks import Gaussian
from saccade.training import population
from saccade.training.population import Group, draw, numbers_of, on_device, start, update


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def same(one, other):
    """Whether two trees hold the same numbers to the last bit."""
    pairs = zip(leaves(one), leaves(other), strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


def one_model(data, **changes):
    """A single model at its start, its numbers, its data and a compiled update."""
    member = small_members(settings=fitting(data), **changes)[0]
    numbers = jax.tree.map(lambda stacked: stacked[0], numbers_of([member]))
    given = on_device(data, member.recipe, sequences.standardise(data))
    return start(numbers, member.settings), numbers, given, jax.jit(partial(update, recipe=member.recipe))


def fitting(data, **changes):
    return preset(**data.sizes, **{**SMALL, **changes})


# --- One update ----------------------------------------------------------------------------------------------------


@pytest.fixture
def _double_precision():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def seen_plainly(model, batch, scaling, noise):
    """A forward–inverse model's predictions, step by step, its inputs (not its weights) standardised."""
    (observation_mean, observation_scale), (action_mean, action_scale) = scaling

    def see(observation):
        return (observation - observation_mean) / observation_scale

    x = [see(batch.observation)]
    if batch.action is not None:
        x = [(batch.action - action_mean) / action_scale, *x]
    latent = initial = model.initial(jnp.concatenate(x, -1)[0])
    x = jnp.concatenate(x if batch.context is None else [*x, batch.context], -1)
    latents, gates, means, variances, acts = [], [], [], [], []
    for t in range(len(x)):
        latent, gate = model.memory.step(x[t], latent, None if noise is None else noise[t])
        change = model.forward(model.memory.read(x[t], latent))
        latents.append(latent)
        gates.append(gate)
        means.append(batch.observation[t] + 0.1 * change.mean)
        variances.append(change.variance)
        if batch.action is not None:
            following = jnp.concatenate([see(batch.next_observation[t]), latent], -1)
            acts.append(model.inverse(model.inverse_gated(following)))
    actions = Gaussian(jnp.stack([a.mean for a in acts]), jnp.stack([a.variance for a in acts])) if acts else None
    return Prediction(
        Gaussian(jnp.stack(means), jnp.stack(variances)), actions, initial, jnp.stack(latents), jnp.stack(gates)
    )


def targets_plainly(observation, gate, mask):
    """The observation at the next step at which a gate opens, or at the sequence's last."""
    targets = np.zeros((len(observation) - 1, *observation.shape[1:]))
    for b in range(observation.shape[1]):
        last = len(observation) - 1 if mask is None else int(mask[:, b].sum()) - 1
        for t in range(last):
            following = [s for s in range(t + 1, last) if (gate[s, b] > 0).any()] + [last]
            targets[t, b] = observation[following[0], b]
    return targets


@pytest.mark.usefixtures("_double_precision")
@pytest.mark.parametrize(
    ("standardise", "shape"),
    [(False, {}), (True, {}), (True, {"ragged": True, "context": 2})],
    ids=["plain", "standardised", "ragged, with context"],
)
def test_updates_are_those_of_adam_on_the_papers_losses_written_down_plainly(standardise, shape):
    data = example(**shape)
    updates, sparsity = 5, 2.0
    training, numbers, given, advance = one_model(
        data,
        sparsities=(sparsity,),
        standardise=standardise,
        skip_steps=None,
        clip=0.05,
        skip_clip=0.2,
        warmup=3,
        sparsity_warmup=4,
        final=0.1,
        learning_rate=2e-2,
        skip_learning_rate=1e-2,
        epsilon=1e-5,
        beta=0.25,
    )
    model, moments = training.model, None
    observation_scaling, action_scaling = (np.float32(0), np.float32(1)), (np.float32(0), np.float32(1))
    if standardise:
        observation_scaling, action_scaling = given.observation_scaling, given.action_scaling
    scaling = (observation_scaling, action_scaling)
    model_adam = optax.chain(optax.clip_by_global_norm(0.05), optax.scale_by_adam(0.9, 0.999, 1e-5))
    skip_adam = optax.chain(optax.clip_by_global_norm(0.2), optax.scale_by_adam(0.9, 0.999, 1e-5))
    moments, skip_moments = model_adam.init(model.forward_inverse), skip_adam.init(model.skip)
    norms, opened = [], 0
    for number in range(updates):
        training, met = advance(training, numbers, jnp.int32(number), given)

        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), 5), number)
        batch_key, noise_key, _ = jax.random.split(key, 3)
        batch = draw(given, 12, batch_key)
        noise = 0.1 * jax.random.normal(noise_key, (8, 12, 4), batch.observation.dtype)
        risen, grown = min((number + 1) / 3, 1), min((number + 1) / 4, 1)
        rate = risen * (0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * number / 40)))

        def loss(network, batch=batch, noise=noise, grown=grown):
            seen = seen_plainly(network, batch, scaling, noise)
            wanted = batch.next_observation, batch.action
            return forward_inverse_loss(seen, *wanted, sparsity=sparsity * grown, beta=0.25, mask=batch.mask)

        quiet = seen_plainly(model.forward_inverse, batch, scaling, None)
        opened += int((quiet.gate > 0).sum())
        target = targets_plainly(np.asarray(batch.observation), np.asarray(quiet.gate), batch.mask)

        def loss_of_skip(network, batch=batch, quiet=quiet, target=target):
            observation = (batch.observation - observation_scaling[0]) / observation_scaling[1]
            parts = [part for part in (observation, batch.context, quiet.latent) if part is not None]
            ahead = network.network(jnp.concatenate(parts, -1)[:-1])
            return skip_loss(ahead, jnp.asarray(target), beta=0.25, mask=batch.mask)

        value, gradient = jax.value_and_grad(loss)(model.forward_inverse)
        skip_value, skip_gradient = jax.value_and_grad(loss_of_skip)(model.skip)
        norms.append(float(optax.tree.norm(gradient)))
        np.testing.assert_allclose(met["loss"], value, rtol=1e-6)
        np.testing.assert_allclose(met["skip_loss"], skip_value, rtol=1e-6)
        np.testing.assert_allclose(met["gradient_norm"], norms[-1], rtol=1e-6)
        steps, moments = model_adam.update(gradient, moments)
        skip_steps, skip_moments = skip_adam.update(skip_gradient, skip_moments)
        descended = (
            jax.tree.map(lambda p, s, rate=rate: p - 2e-2 * rate * s, model.forward_inverse, steps),
            jax.tree.map(lambda p, s, rate=rate: p - 1e-2 * rate * s, model.skip, skip_steps),
        )
        model = eqx.tree_at(lambda m: (m.forward_inverse, m.skip), model, descended)
        for ours, theirs in zip(leaves(training.model), leaves(model), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-8)
    assert min(norms) > 0.05  # clipping was at work
    assert 0 < opened < updates * 8 * 12 * 4  # and so were gates


def test_learning_rates_rise_and_fall_as_the_recipe_says():
    numbers = jax.tree.map(
        lambda stacked: stacked[0], numbers_of(small_members(warmup=10, final=0.2, updates=100, sparsity_warmup=4))
    )
    shares = [float(population._schedule(numbers, number, small_recipe(updates=100))) for number in (0, 4, 9, 50, 100)]
    cosine = [0.2 + 0.8 * 0.5 * (1 + np.cos(np.pi * number / 100)) for number in (0, 4, 9, 50, 100)]
    np.testing.assert_allclose(shares, np.array([0.1, 0.5, 1, 1, 1]) * cosine, rtol=1e-6)
    assert shares[3:] == pytest.approx([0.6, 0.2])
    rises = [float(population._rise(number, numbers.sparsity_warmup)) for number in (0, 1, 3, 4, 1000)]
    assert rises == [0.25, 0.5, 1, 1, 1]
    assert float(population._rise(0, 0)) == 1
    paper = jax.tree.map(lambda stacked: stacked[0], numbers_of(small_members(warmup=0, final=1.0)))
    assert {float(population._schedule(paper, number, small_recipe())) for number in (0, 7, 39)} == {1.0}


def test_lambda_is_only_as_large_as_its_warm_up_says():
    data = example()
    losses = {}
    for sparsity in (0.0, 1.0):
        training, numbers, given, advance = one_model(data, sparsities=(sparsity,), sparsity_warmup=8)
        losses[sparsity] = [
            {name: float(value) for name, value in advance(training, numbers, jnp.int32(number), given)[1].items()}
            for number in (0, 3, 7, 20)
        ]
    for free, costly, share in zip(losses[0.0], losses[1.0], (1 / 8, 4 / 8, 1, 1), strict=True):
        assert costly["gate_rate"] == free["gate_rate"] > 0
        assert costly["loss"] - free["loss"] == pytest.approx(share * free["gate_rate"], rel=1e-4)


def test_the_skip_network_leaves_no_trace_in_the_forward_inverse_model():
    found = []
    for changes in ({"skip_learning_rate": 1e-3}, {"skip_learning_rate": 1.0}, {"skip_steps": 0}, {"skip_steps": 7}):
        training, numbers, given, advance = one_model(example(), **changes)
        for number in range(3):
            training, _ = advance(training, numbers, jnp.int32(number), given)
        found.append(training)
    assert not same(found[0].model.skip, found[1].model.skip)
    for other in found[1:]:
        for ours, theirs in zip(
            leaves(found[0].model.forward_inverse), leaves(other.model.forward_inverse), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_no_gradient_of_the_skip_loss_reaches_the_forward_inverse_model():
    training, numbers, given, _ = one_model(example())
    batch = draw(given, 12, jax.random.key(1))

    def loss(model, recipe):
        return population._skip_loss(model, batch, recipe, numbers.beta, jax.random.key(2))

    for steps in (None, 4):
        gradient = jax.grad(loss)(training.model, small_recipe(skip_steps=steps))
        assert not any(leaf.any() for leaf in leaves(gradient.forward_inverse))
        assert all(leaf.any() for leaf in leaves(gradient.skip))


def test_without_skip_steps_the_skip_network_stays_as_it_was():
    training, numbers, given, advance = one_model(example(), skip_steps=0)
    after, met = advance(training, numbers, jnp.int32(0), given)
    assert same(after.model.skip, training.model.skip)
    assert same(after.skip_moments, training.skip_moments)
    assert met["skip_loss"] == 0
    assert not same(after.model.forward_inverse, training.model.forward_inverse)


def test_skip_targets_are_those_of_gates_without_noise():
    """Noise this large opens and closes every gate at random: the targets would be others for every key."""
    data = example()
    settings = fitting(data, gate_noise=100.0)
    members = small_members(settings=settings, skip_steps=None)
    numbers = jax.tree.map(lambda stacked: stacked[0], numbers_of(members))
    given = on_device(data, members[0].recipe, sequences.standardise(data))
    model = start(numbers, settings).model
    batch = draw(given, 12, jax.random.key(1))
    found = {
        float(population._skip_loss(model, batch, members[0].recipe, numbers.beta, jax.random.key(key)))
        for key in range(3)
    }
    quiet = model.forward_inverse.observe(batch.observation, batch.action)
    target = targets_plainly(np.asarray(batch.observation), np.asarray(quiet.gate), None)
    ahead = model.skip(batch.observation[:-1], quiet.latent[:-1])
    assert len(found) == 1
    assert found.pop() == pytest.approx(float(skip_loss(ahead, jnp.asarray(target, jnp.float32))), rel=1e-5)


def test_sampled_skip_steps_have_the_loss_of_all_steps_in_the_mean():
    training, numbers, given, _ = one_model(example(ragged=True), skip_steps=3)
    batch = draw(given, 12, jax.random.key(1))

    @jax.jit
    def sampled(key):
        return population._skip_loss(training.model, batch, small_recipe(skip_steps=3), numbers.beta, key)

    mean = np.mean([sampled(jax.random.key(number)) for number in range(400)])
    # Every sequence counts the same when steps are sampled, every step when all are taken.
    seen = training.model.forward_inverse.observe(batch.observation, batch.action, mask=batch.mask)
    target = jnp.asarray(targets_plainly(np.asarray(batch.observation), np.asarray(seen.gate), batch.mask), jnp.float32)
    losses = [
        float(
            skip_loss(training.model.skip(batch.observation[: n - 1, b], seen.latent[: n - 1, b]), target[: n - 1, b])
        )
        for b, n in enumerate(np.asarray(batch.mask).sum(0))
    ]
    assert mean == pytest.approx(np.mean(losses), rel=0.05)


# --- Batches and data ----------------------------------------------------------------------------------------------


def test_batches_hold_as_many_of_each_kind_and_reach_every_sequence():
    data = example(24)
    uneven = data[np.r_[0:24:3, 1:12:3, 2:6:3]]  # 8, 4 and 2 of a kind
    given = on_device(uneven, small_recipe(), sequences.standardise(uneven))
    drawn = jax.jit(lambda key: draw(given, 12, key))
    reached = set()
    for number in range(30):
        first = np.asarray(drawn(jax.random.key(number)).observation[0])
        which = [int(np.flatnonzero((uneven.observation[:, 0] == one).all(-1))[0]) for one in first]
        assert np.bincount(uneven.kind[which]).tolist() == [4, 4, 4]
        reached.update(which)
    assert reached == set(range(len(uneven)))


def test_kinds_are_ignored_where_a_batch_cannot_be_shared_out_evenly():
    data = example(24)
    given = on_device(data, small_recipe(batch=10), sequences.standardise(data))
    assert draw(given, 10, jax.random.key(0)).observation.shape == (8, 10, 3)


SHAPES = {
    "no kinds": {"kinds": 0},
    "one kind": {"kinds": 1},
    "ragged": {"ragged": True},
    "context": {"context": 2, "ragged": True},
    "no actions": {"action": 0},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_data_of_every_shape_trains(shape):
    data = example(**shape)
    group = Group(small_members(settings=fitting(data)), data, data)
    trainings = group.start()
    before = group.judge(trainings)
    trainings, met = group.advance(trainings, 0, 30)
    after = group.judge(trainings)
    assert all(np.isfinite(values).all() for values in (*met.values(), *before.values(), *after.values()))
    assert ("action_mse" in after) == (data.sizes["action"] > 0)
    assert after["observation_mse"][0] < before["observation_mse"][0]


@pytest.mark.parametrize("skip_steps", [None, 4])
def test_what_stands_in_the_padding_changes_nothing(skip_steps):
    data = example(ragged=True, context=2)
    found = []
    for value in (0.0, np.nan, np.inf, 1e30):
        beyond = np.arange(9) > data.lengths[:, None]
        filled = replace(
            data,
            observation=np.where(beyond[..., None], value, data.observation),
            action=np.where(beyond[:, 1:, None], value, data.action),
            context=np.where(beyond[:, 1:, None], value, data.context),
        )
        training, numbers, given, advance = one_model(filled, skip_steps=skip_steps)
        training, _ = advance(training, numbers, jnp.int32(0), given)
        found.append(training.model)
    assert all(same(found[0], other) for other in found[1:])
    assert all(np.isfinite(leaf).all() for leaf in leaves(found[0]))


def test_measures_are_means_over_all_sequences_however_many_at_a_time():
    data = example(24, ragged=True)
    member = small_members()[0]
    given = on_device(data, member.recipe, sequences.standardise(data))
    training, *_ = one_model(data)
    at_once, in_parts = (population.judge(training, given, member.recipe, size) for size in (24, 4))
    for name, value in at_once.items():
        assert float(in_parts[name]) == pytest.approx(float(value), rel=1e-5), name


def test_data_that_does_not_fit_the_model_is_one_line():
    with pytest.raises(InputError, match="the data's action has 0 dimensions: the model has 2"):
        Group(small_members(), example(action=0), example(action=0))
    with pytest.raises(InputError, match="members differ in more than seed, λ and learning rates"):
        Group([*small_members(), *small_members(seeds=(6,), batch=24)], example(), example())


# --- Many models ---------------------------------------------------------------------------------------------------


def trained(group, *counts):
    trainings, done = group.start(), 0
    for count in counts:
        trainings, _ = group.advance(trainings, done, count)
        done += count
    return trainings


def test_a_model_is_to_the_last_bit_what_it_is_alone():
    data = example()
    calm = small_recipe(name="calm", learning_rate=1e-3, clip=None, warmup=0)
    three = [*small_members(sparsities=(1.0, 0.0)), replace(small_members()[0], seed=9, recipe=calm)]
    together = trained(Group(three, data, data, lanes=1), 12)
    for member, beside in zip(three, together, strict=True):
        alone = trained(Group([member], data, data, lanes=1), 12)
        assert same(alone[0], beside)
    assert not same(together[0], together[1])
    assert not same(together[0], together[2])


def test_models_in_one_product_are_what_they_are_alone_to_rounding():
    data = example()
    three = small_members(sparsities=(1.0, 0.1, 0.0))
    alone = Group(three, data, data, lanes=1)
    beside = Group(three, data, data, lanes=3)
    one = alone.stack(trained(alone, 5))
    other = beside.stack(trained(beside, 5))
    for ours, theirs in zip(leaves(one.model), leaves(other.model), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_how_updates_are_cut_into_chunks_changes_no_bit():
    data = example()
    group = Group(small_members(), data, data)
    assert same(trained(group, 12), trained(group, 1, 4, 7))


def test_a_stack_of_models_is_unstacked_as_it_was():
    data = example()
    group = Group(small_members(seeds=(1, 2, 3)), data, data, lanes=2)
    trainings = group.start()
    again = group.unstack(group.stack(trainings))
    assert len(again) == 2
    assert all(same(one, other) for one, other in zip(trainings, again, strict=True))
    assert [leaf.shape for leaf in leaves(group.stack(trainings))] == [
        leaf.shape for leaf in jax.tree.leaves(group.skeleton())
    ]


def test_another_seed_is_another_model_and_the_same_seed_the_same():
    data = example()
    group = Group(small_members(seeds=(1, 2)), data, data)
    first, second = group.models(group.start())
    assert not same(first, second)
    assert same(first, group.models(group.start())[0])


def test_a_finished_model_takes_plain_inputs():
    data = example()
    group = Group(small_members(), data, data)
    trainings = group.start()
    judged, model = group.judge(trainings), group.models(trainings)[0]
    batch = sequences.batch(data)
    predicted = model.forward_inverse.observe(jnp.asarray(batch.observation), jnp.asarray(batch.action))
    error = ((predicted.observation.mean - batch.next_observation) ** 2).mean()
    assert float(error) == pytest.approx(float(judged["observation_mse"][0]), rel=1e-4)
    assert isinstance(model, EventModel)
    assert model.settings == SETTINGS


PROGRAM = """
    import sys
    from saccade import machine
    machine.prepare(int(sys.argv[1]))
    import jax, numpy as np
    jax.config.update("jax_disable_most_optimizations", True)
    for name, value in {settings!r}.items():
        jax.config.update(name, value)
    sys.path.insert(0, {here!r})
    from tiny import example, small_members
    from saccade.training.population import Group
    assert jax.local_device_count() == int(sys.argv[1])
    data = example()
    group = Group(small_members(seeds=(1, 2, 3)), data, data)
    trainings, met = group.advance(group.start(), 0, 12)
    numbers = [*jax.tree.leaves(group.stack(trainings)), *met.values()]
    np.savez(sys.argv[2], *map(np.asarray, numbers))
"""


def test_the_number_of_devices_changes_no_bit(tmp_path, compiled):
    program = textwrap.dedent(PROGRAM.format(settings=compiled, here=str(Path(__file__).parent)))
    found = []
    for devices in (1, 2):
        path = tmp_path / f"{devices}.npz"
        done = subprocess.run(
            [sys.executable, "-c", program, str(devices), path], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        with np.load(path) as file:
            found.append([file[name] for name in file.files])
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
