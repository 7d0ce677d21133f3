"""Training with a focus: inputs as they look with it, targets as they are; and boundaries that are not learned."""

import json
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import SMALL, example, small_members, small_recipe

from saccade import events, forward_inverse_loss, preset, training
from saccade import sequences as sequences_
from saccade.checks import InputError
from saccade.sequences import Sequences
from saccade.training import population
from saccade.training.population import Group, numbers_of, on_device, start, update

ENTITIES = {"ball": (0,), "wall": (1, 2)}


def scene(**changes) -> Sequences:
    return replace(example(), entities=ENTITIES, **changes)


def members(data, **changes):
    changes = {"focus_changes": 2, "focus_noise": 0.5, **changes}
    settings = preset(**population.model_sizes(data, small_recipe(**changes)), **SMALL, gate_noise=0.0)
    return small_members(settings=settings, **changes)


def parts(data, **changes):
    """A single model at its start, with its numbers, data and recipe."""
    member = members(data, **changes)[0]
    numbers = jax.tree.map(lambda stacked: stacked[0], numbers_of([member]))
    given = on_device(data, member.recipe, sequences_.standardise(data))
    return start(numbers, member.settings), numbers, given, member.recipe


def same(one, other):
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in leaves)


def looked_at(given, recipe):
    plain = population.draw(given, recipe.batch, jax.random.key(0))
    return plain, population._looked_at(plain, given, recipe, jax.random.key(1))


def test_what_has_no_focus_is_noisy_as_input_and_clean_as_target():
    _, _, given, recipe = parts(scene())
    plain, looked = looked_at(given, recipe)
    noisy = np.asarray(looked.observation != plain.observation)
    ball, wall = np.moveaxis(np.asarray(looked.context), -1, 0) > 0
    np.testing.assert_array_equal(noisy[..., 0], wall)
    np.testing.assert_array_equal(noisy[..., 1:], np.stack([ball, ball], -1))
    assert same((looked.next_observation, looked.clean), (plain.next_observation, plain.observation))


def test_the_loss_is_that_of_predicting_clean_observations_from_what_is_seen():
    training_, numbers, given, recipe = parts(scene(), standardise=False, skip_steps=None)
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), numbers.seed), 7)
    batch = population.draw(given, recipe.batch, jax.random.split(key, 3)[0])
    looked = population._looked_at(batch, given, recipe, jax.random.fold_in(key, 3))
    model = training_.model
    seen = model.forward_inverse.observe(looked.observation, batch.action, looked.context)
    sparsity = numbers.sparsity * 8 / numbers.sparsity_warmup
    loss = forward_inverse_loss(seen, batch.next_observation, batch.action, sparsity=sparsity)
    _, met = jax.jit(partial(update, recipe=recipe))(training_, numbers, jnp.int32(7), given)
    np.testing.assert_allclose(met["loss"], loss, rtol=1e-5)
    target = events.skip_targets(batch.observation, events.boundaries(seen.gate))
    ahead = model.skip(looked.observation[:-1], seen.latent[:-1], looked.context[:-1])
    np.testing.assert_allclose(met["skip_loss"], population.skip_loss(ahead, target), rtol=1e-5)


def test_without_a_focus_neither_entities_nor_noise_change_a_bit():
    data = example()
    plain = members(data, focus_changes=None)
    other = members(data, focus_changes=None, focus_noise=9.0)
    done = []
    for given, who in ((data, plain), (scene(), plain), (data, other)):
        group = Group(who, given, given)
        done.append(group.advance(group.start(), 0, 5))
    assert same(done[0], done[1]) and same(done[0], done[2])


def test_models_are_judged_with_the_same_focus_and_noise_every_time():
    data = scene()
    loud, quiet = (Group(members(data, focus_noise=noise), data, data) for noise in (0.5, 0.0))
    begun = loud.start()
    assert same(loud.judge(begun), loud.judge(begun))
    assert not same(loud.judge(begun), quiet.judge(begun))


@pytest.mark.parametrize(
    ("changes", "ragged"), [({"boundaries": "true"}, False), ({"boundaries": 3, "skip_steps": None}, True)]
)
def test_training_with_a_focus_learns(changes, ragged):
    data = replace(
        example(ragged=ragged), entities=ENTITIES, event=np.arange(8)[None] // 3 + np.zeros((24, 1), np.int8)
    )
    group = Group(members(data, **changes), data, data)
    first = group.start()
    before = group.judge(first)
    after = group.judge(group.advance(first, 0, 40)[0])
    assert after["action_nll"] < before["action_nll"]
    assert after["skip_nll"] < before["skip_nll"]


def test_true_boundaries_are_where_events_change_and_the_last_step():
    data = Sequences(
        observation=np.zeros((2, 7, 1)),
        action=np.zeros((2, 6, 1)),
        event=np.array([[0, 0, 1, 1, 2, 2], [0, -1, 1, 2, 2, 2]]),
        length=np.array([6, 5]),
    )
    found = population.wanted_boundaries(data, small_recipe(boundaries="true"))
    np.testing.assert_array_equal(found, [[0, 0, 1, 0, 1, 1], [0, 0, 0, 1, 1, 0]])
    found = population.wanted_boundaries(data, small_recipe(boundaries=2))
    np.testing.assert_array_equal(found, [[0, 0, 1, 0, 1, 1], [0, 0, 1, 0, 1, 0]])


def test_wanted_boundaries_are_what_skip_targets_come_from():
    data = scene()
    training_, _, given, recipe = parts(data, boundaries=1, skip_steps=None)
    batch = looked_at(given, recipe)[1]
    seen = training_.model.forward_inverse.observe(batch.observation, batch.action, batch.context)
    np.testing.assert_array_equal(population._skip_target(training_.model, seen, batch), batch.clean[1:])


@pytest.mark.parametrize(
    ("data", "changes", "says"),
    [
        (example(), {}, "2 or more"),
        (replace(example(context=2), entities=ENTITIES), {}, "the focus takes its place"),
        (scene(), {"boundaries": "true"}, "without events"),
    ],
)
def test_data_that_does_not_fit_is_one_line(data, changes, says):
    with pytest.raises(InputError, match=says):
        parts(data, **changes)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"focus_changes": -1}, "focus_changes is -1: wanted a whole number from 0"),
        ({"focus_noise": -0.1}, "focus_noise is -0.1: wanted a number, 0 or above"),
        ({"boundaries": "mine"}, "choose one of learned, true"),
        ({"boundaries": 0}, "boundaries is 0: wanted a whole number from 1"),
    ],
)
def test_wrong_settings_are_one_line(changes, says):
    with pytest.raises(InputError, match=says):
        training.recipe("fast", **changes)


def test_a_run_begun_before_there_were_these_settings_goes_on(tmp_path):
    data = tmp_path / "data.safetensors"
    sequences_.save(example(), data)
    wanted = small_members(settings=preset(**example().sizes, **SMALL), updates=4, evaluate_every=4)
    run = tmp_path / "run"
    assert training.train(run, wanted, data)
    known = training.about(run)
    for name in ("focus_changes", "focus_noise", "boundaries"):
        del known["groups"][0][0]["recipe"][name]
    (run / "run.json").write_text(json.dumps(known))
    assert training.train(run, wanted, data)
