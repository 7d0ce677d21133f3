"""What the models promise: their modes agree with each other, padding changes nothing, and wrong input is explained."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saccade import events
from saccade.checks import InputError
from saccade.models import (
    EventModel,
    ForwardInverseModel,
    SkipNetwork,
    forward_inverse_loss,
    gate_rate,
    measure,
    preset,
    skip_loss,
)

SMALL = {
    "observation": 5, "latent": 4, "features": 3, "memory_hidden": (6,), "initial_hidden": (6,),
    "forward_shared": (6,), "inverse_shared": (6,), "skip_shared": (6,),
}  # fmt: skip
VARIANTS = {
    "plain": {"action": 2},
    "with context": {"action": 2, "context": 3},
    "without action": {"action": 0},
    "without action, with context": {"action": 0, "context": 1},
    "gru": {"action": 2, "memory": "gru"},
    "deep": {
        "action": 1,
        "memory_hidden": (6, 5, 4),
        "forward_separate": (5,),
        "inverse_separate": (4, 3),
        "skip_separate": (2,),
    },
    "original": {
        "action": 3,
        "inverse_gated": None,
        "inverse_squash": "sigmoid",
        "forward_shared": (),
        "inverse_shared": (),
    },
}
variants = pytest.mark.parametrize("variant", VARIANTS)


def make(variant="plain", steps=6, batch=(3,), seed=0):
    settings = preset(**{**SMALL, **VARIANTS[variant]})
    keys = jax.random.split(jax.random.key(seed), 4)
    # Ten times the usual weights, so that gates open and close in an untrained model.
    model = jax.tree.map(lambda a: 3 * a, EventModel(settings, key=keys[0]))
    sizes = (settings.observation, settings.action, settings.context)
    arrays = [jax.random.normal(k, (steps, *batch, n)) if n else None for k, n in zip(keys[1:], sizes, strict=True)]
    return model, *arrays


def assert_same(given, wanted, tolerance=1e-12):
    assert jax.tree.structure(given) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(given), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_paper_sizes_are_those_of_the_appendix():
    model = EventModel(key=jax.random.key(0))
    shapes = lambda mlp: [layer.weight.shape for layer in mlp.layers]  # noqa: E731
    fim = model.forward_inverse
    assert shapes(fim.initial) == [(64, 15), (32, 64), (16, 32)]
    assert shapes(fim.memory.recommend) == shapes(fim.memory.gate) == [(64, 31), (32, 64), (16, 32)]
    assert fim.memory.output.value.weight.shape == (16, 31)
    assert shapes(fim.forward.shared) == [(64, 16), (32, 64), (16, 32)]
    assert shapes(fim.forward.mean) == shapes(fim.forward.variance) == [(11, 16)]
    assert fim.inverse_gated.value.weight.shape == (16, 27)
    assert shapes(fim.inverse.shared) == [(64, 16), (32, 64), (16, 32)]
    assert shapes(fim.inverse.mean) == [(4, 16)]
    assert shapes(model.skip.network.shared) == [(512, 27), (256, 512), (128, 256), (64, 128), (32, 64)]
    assert shapes(model.skip.network.variance) == [(11, 32)]


@variants
def test_imagining_is_observing_what_was_imagined(variant):
    model, observation, action, context = make(variant)
    imagined = model.forward_inverse.imagine(observation[0], action, context, steps=6)
    dreamt = jnp.concatenate([observation[:1], imagined.observation.mean[:-1]])
    assert_same(imagined, model.forward_inverse.observe(dreamt, action, context))


@pytest.mark.parametrize("variant", [name for name, sizes in VARIANTS.items() if sizes["action"]])
def test_closed_on_actions_is_observing_the_own_actions(variant):
    model, observation, action, context = make(variant)
    closed = model.forward_inverse.observe_closed(observation, action[0], context)
    own = jnp.concatenate([action[:1], closed.action.mean[:-1]])
    assert_same(closed, model.forward_inverse.observe(observation, own, context))


@variants
def test_steps_one_by_one_are_the_observed_sequence(variant):
    model, observation, action, context = make(variant)
    fim = model.forward_inverse
    whole = fim.observe(observation, action, context)
    latent = whole.initial
    at = lambda array, t: None if array is None else array[t]  # noqa: E731
    for t in range(len(observation)):
        step = fim.step(latent, observation[t], at(action, t), at(context, t))
        latent = step.latent
        assert_same((step.latent, step.gate), (whole.latent[t], whole.gate[t]))
        assert_same(step.observation.mean, whole.observation.mean[t])
        if action is not None and t + 1 < len(observation):
            assert_same(fim.act(observation[t + 1], latent).mean, whole.action.mean[t])


def following(observation):
    """What was seen after each step; something seen after the last one, too."""
    return jnp.concatenate([observation[1:], 1 + observation[:1]])


def losses(model, observation, action, context, target, mask=None, key=None):
    """Both losses of a model, the skip network's on the targets of the model's own gates."""
    predicted = model.forward_inverse.observe(observation, action, context, mask=mask, key=key)
    boundary = events.boundaries(predicted.gate, mask)
    looked = None if context is None else context[:-1]
    skips = model.skip(observation[:-1], predicted.latent[:-1], looked, mask=None if mask is None else mask[:-1])
    ahead = skip_loss(skips, events.skip_targets(observation, boundary), mask=mask)
    return forward_inverse_loss(predicted, target, action, sparsity=0.7, mask=mask) + ahead, predicted


@variants
@pytest.mark.parametrize("rubbish", [1e6, np.nan])
def test_ragged_is_the_same_sequences_alone(variant, rubbish):
    model, observation, action, context = make(variant)
    lengths = np.asarray([6, 2, 4])
    mask = jnp.asarray(np.arange(6)[:, None] < lengths)
    spoil = lambda array: None if array is None else jnp.where(mask[..., None], array, rubbish)  # noqa: E731
    target = following(observation)
    padded = [spoil(array) for array in (observation, action, context, target)]
    (_, together), gradients = eqx.filter_jit(eqx.filter_value_and_grad(losses, has_aux=True))(model, *padded, mask)
    measures = eqx.filter_jit(measure)(together, padded[3], padded[1], mask=mask)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((gradients, measures)))
    alone = []
    for i, length in enumerate(lengths):
        one = [None if array is None else array[:length, i] for array in (observation, action, context)]
        predicted = model.forward_inverse.observe(*one)
        alone.append(measure(predicted, target[:length, i], one[1]))
        for part in ("latent", "gate", "observation", "action"):
            mine = jax.tree.map(lambda a, n=length, i=i: a[:n, i], getattr(together, part))
            assert_same(mine, getattr(predicted, part))
    for name, value in measures.items():
        weights = lengths - 1 if name.startswith("action") else lengths
        assert_same(value, np.average([float(one[name]) for one in alone], weights=weights))


def test_padding_reaches_neither_loss_nor_gradient():
    model, observation, action, context = make("with context")
    mask = jnp.asarray(np.arange(6)[:, None] < np.asarray([6, 3, 4]))
    value_and_grad = eqx.filter_jit(eqx.filter_value_and_grad(lambda *a: losses(*a)[0]))
    arrays = [observation, action, context, following(observation)]
    clean = value_and_grad(model, *arrays, mask)
    spoilt = [jnp.where(mask[..., None], array, np.nan) for array in arrays]
    assert_same(value_and_grad(model, *spoilt, mask), clean)
    whole = value_and_grad(model, *arrays)
    assert abs(whole[0] - clean[0]) > 1e-6
    assert_same(value_and_grad(model, *arrays, jnp.ones((6, 3), bool)), whole)


def test_closed_mode_ignores_padding_too():
    model, observation, action, _ = make()
    mask = jnp.asarray(np.arange(6)[:, None] < np.asarray([6, 3, 4]))
    spoilt = jnp.where(mask[..., None], observation, np.nan)
    together = model.forward_inverse.observe_closed(spoilt, action[0], mask=mask)
    alone = model.forward_inverse.observe_closed(observation[:3, 1], action[0, 1])
    assert_same(together.action.mean[:3, 1], alone.action.mean)


def test_sparsity_gradient_goes_straight_through_open_gates():
    model, observation, action, _ = make()
    predicted = model.forward_inverse.observe(observation, action)
    through = jax.grad(lambda gate: gate_rate(eqx.tree_at(lambda p: p.gate, predicted, gate)))(predicted.gate)
    assert_same(through, jnp.full_like(predicted.gate, 1 / predicted.gate.size))
    # In the parameters it is therefore the gradient of the mean gate, which closed gates do not contribute to.
    of_rate = eqx.filter_grad(lambda m: gate_rate(m.observe(observation, action)))(model.forward_inverse)
    of_mean = eqx.filter_grad(lambda m: m.observe(observation, action).gate.mean())(model.forward_inverse)
    assert_same(of_rate, of_mean)
    assert any(jnp.any(leaf != 0) for leaf in jax.tree.leaves(of_rate.memory.gate))
    rate = gate_rate(predicted)
    assert 0.05 < rate < 0.95
    assert_same(rate, (np.asarray(predicted.gate) > 0).mean())


def test_loss_is_what_the_specification_says():
    model, observation, action, _ = make()
    predicted = model.forward_inverse.observe(observation[:-1], action[:-1])

    def beta_nll(prediction, target):
        mean, variance = np.asarray(prediction.mean)[: len(target)], np.asarray(prediction.variance)[: len(target)]
        nll = 0.5 * np.log(2 * np.pi * variance) + (target - mean) ** 2 / (2 * variance)
        return (nll * np.sqrt(variance)).sum(-1).mean()

    ahead, acts = beta_nll(predicted.observation, observation[1:]), beta_nll(predicted.action, action[1:-1])
    wanted = 0.5 * ahead + 0.5 * acts + 0.7 * (np.asarray(predicted.gate) > 0).mean()
    assert_same(forward_inverse_loss(predicted, observation[1:], action[:-1], sparsity=0.7), wanted)


def test_without_actions_the_loss_is_that_of_observations():
    model, observation, _, _ = make("without action")
    predicted = model.forward_inverse.observe(observation)
    assert predicted.action is None
    loss = forward_inverse_loss(predicted, observation, sparsity=0.0, beta=0.0)
    assert_same(loss, measure(predicted, observation)["observation_nll"])


@pytest.mark.parametrize("variant", ["with context", "gru", "without action"])
def test_batched_is_looped_is_vmapped(variant):
    model, observation, action, context = make(variant)
    batched = model.forward_inverse.observe(observation, action, context)
    given = [array for array in (observation, action, context) if array is not None]

    def alone(*arrays):
        arrays = iter(arrays)
        return model.forward_inverse.observe(
            *[None if a is None else next(arrays) for a in (observation, action, context)]
        )

    vmapped = jax.vmap(alone, in_axes=1)(*given)
    looped = jax.tree.map(lambda *a: jnp.stack(a), *[alone(*[array[:, i] for array in given]) for i in range(3)])
    by_time = lambda out: jax.tree.map(lambda a: jnp.moveaxis(a, 0, 1) if a.ndim > 2 else a, out)  # noqa: E731
    assert_same(by_time(vmapped), batched)
    assert_same(by_time(looped), batched)


@pytest.mark.parametrize("variant", ["with context", "gru"])
def test_many_models_at_once_are_each_alone(variant):
    settings = preset(**{**SMALL, **VARIANTS[variant]})
    keys = jax.random.split(jax.random.key(0), 3)
    population = eqx.filter_vmap(lambda key: EventModel(settings, key=key))(keys)
    _, observation, action, context = make(variant)
    arrays = (observation, action, context, following(observation), None, jax.random.key(7))
    both = eqx.filter_value_and_grad(losses, has_aux=True)
    together = eqx.filter_jit(eqx.filter_vmap(lambda model: both(model, *arrays)))(population)
    for index in range(3):
        alone = eqx.filter_jit(both)(EventModel(settings, key=keys[index]), *arrays)
        assert_same(jax.tree.map(lambda a, i=index: a[i], together), alone, 1e-10)


def test_everything_compiles():
    model, observation, action, context = make("with context")
    arrays = [observation, action, context, following(observation)]
    jitted = eqx.filter_jit(losses)(model, *arrays, jnp.ones((6, 3), bool), jax.random.key(0))
    assert_same(jitted, losses(model, *arrays, None, jax.random.key(0)))


def test_gate_noise_is_there_in_training_only():
    model, observation, action, _ = make()
    observe = model.forward_inverse.observe
    quiet, noisy = observe(observation, action), observe(observation, action, key=jax.random.key(0))
    assert_same(quiet, observe(observation, action))
    assert_same(noisy, observe(observation, action, key=jax.random.key(0)))
    open_in_both = (quiet.gate[0] > 0) & (noisy.gate[0] > 0)
    shift = np.arctanh(np.asarray(quiet.gate[0][open_in_both])) - np.arctanh(np.asarray(noisy.gate[0][open_in_both]))
    assert 0.02 < shift.std() < 0.3


class TestWrongInput:
    """Every one a clear line; none a traceback from within JAX."""

    @pytest.fixture(autouse=True)
    def _untyped(self, untyped):
        pass

    @pytest.mark.parametrize(
        ("change", "wanted"),
        [
            (lambda o, a: (o[..., :4], a), r"observation has shape \(6, 3, 4\): wanted .* with 5 features"),
            (lambda o, a: (o[0, 0], a), r"observation has shape \(5,\): wanted \(time, ..., 5\)"),
            (lambda o, a: (o, None), "action is missing: wanted an array"),
            (lambda o, a: (o, a[..., :1]), "action has shape"),
            (lambda o, a: (o, a[:5]), r"action has shape \(5, 3, 2\): wanted \(6, 3, 2\)"),
            (lambda o, a: (o, a[:, 0]), r"action has shape \(6, 2\): wanted \(6, 3, 2\)"),
            (lambda o, a: (o.at[2, 1, 0].set(np.nan), a), r"observation holds 1 NaN .* first at index \(2, 1, 0\)"),
            (lambda o, a: (o, a.at[0].set(np.inf)), "action holds 6 NaN or infinite values"),
            (lambda o, a: (o[:0], a[:0]), "length 0: wanted at least 2"),
            (lambda o, a: (o[:1], a[:1]), "length 1: wanted at least 2"),
            (lambda o, a: (o[:, :0], a[:, :0]), "wanted at least one sequence"),
            (lambda o, a: (o.astype(int), a), "observation holds int64: wanted floating-point"),
            (lambda o, a: (o, a, a), "context is given to a model built without it"),
        ],
    )
    def test_of_sequences(self, change, wanted):
        model, observation, action, _ = make()
        with pytest.raises(InputError, match=wanted):
            model.forward_inverse.observe(*change(observation, action))

    @pytest.mark.parametrize(
        ("mask", "wanted"),
        [
            (np.ones((6, 3)), r"mask is float64 of shape \(6, 3\): wanted bool"),
            (np.ones((5, 3), bool), r"wanted bool of shape \(6, 3\)"),
            (np.asarray([[1], [0], [1], [1], [1], [1]], bool).repeat(3, 1), "steps after a gap"),
            (np.arange(6)[:, None] < [6, 1, 6], "a sequence of length 1: wanted at least 2"),
            (np.arange(6)[:, None] < [6, 0, 6], "a sequence of length 0"),
        ],
    )
    def test_of_masks(self, mask, wanted):
        model, observation, action, _ = make()
        with pytest.raises(InputError, match=wanted):
            model.forward_inverse.observe(observation, action, mask=jnp.asarray(mask))

    @pytest.mark.parametrize(
        ("build", "wanted"),
        [
            (lambda: preset("papper"), "preset 'papper' is unknown: choose one of original, paper"),
            (lambda: preset(latents=3), "setting 'latents' is unknown: choose one of action"),
            (lambda: preset(latent=0), "latent is 0: wanted a whole number from 1 up"),
            (lambda: preset(action=-1), "action is -1: wanted a whole number from 0 up"),
            (lambda: preset(observation=2.5), "observation is 2.5"),
            (lambda: preset(skip_shared=(32, 0)), r"skip_shared is \(32, 0\): wanted widths"),
            (lambda: preset(memory="lstm"), "memory 'lstm' is unknown: choose one of gatel0rd, gru"),
        ],
    )
    def test_of_settings(self, build, wanted):
        with pytest.raises(InputError, match=wanted):
            build()

    def test_of_modes(self):
        model, observation, action, _ = make()
        fim = model.forward_inverse
        with pytest.raises(InputError, match=r"first_action has shape \(6, 3, 2\)"):
            fim.observe_closed(observation, action)
        with pytest.raises(InputError, match="first_action holds"):
            fim.observe_closed(observation, action[0] * np.nan)
        with pytest.raises(InputError, match=r"action has shape \(6, 3, 2\): wanted \(6, 2, 2\)"):
            fim.imagine(observation[0, :2], action)
        with pytest.raises(InputError, match=r"observation has shape .*: wanted .* with 5 features"):
            fim.imagine(observation[0, :, :4], action)
        blind = ForwardInverseModel(preset(**{**SMALL, "action": 0}), key=jax.random.key(0))
        with pytest.raises(InputError, match="no actions to predict"):
            blind.observe_closed(observation, action[0])
        with pytest.raises(InputError, match="no actions to predict"):
            blind.act(observation[0], action[0])
        with pytest.raises(InputError, match="says how long to imagine"):
            blind.imagine(observation[0])
        with pytest.raises(InputError, match="action is missing"):
            measure(fim.observe(observation, action), observation)

    def test_of_single_steps(self):
        model, observation, action, _ = make()
        with pytest.raises(InputError, match="action is missing"):
            model.forward_inverse.step(jnp.zeros((3, 4)), observation[0])
        with pytest.raises(InputError, match=r"latent has shape \(3, 5\): wanted .* 4 features"):
            model.forward_inverse.step(jnp.zeros((3, 5)), observation[0], action[0])

    def test_of_the_skip_network(self):
        model, observation, _, _ = make()
        with pytest.raises(InputError, match=r"latent has shape \(6, 3, 5\): wanted .* with 4 features"):
            model.skip(observation, observation)
        with pytest.raises(InputError, match="context is given"):
            model.skip(observation, observation[..., :4], observation)
        looking = SkipNetwork(preset(**{**SMALL, "context": 2}), key=jax.random.key(0))
        with pytest.raises(InputError, match="context is missing"):
            looking(observation, observation[..., :4])
