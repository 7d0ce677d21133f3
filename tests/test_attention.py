"""Where to look: what is seen with a focus, which focus is chosen, and whether predicted variances can be believed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saccade import EventModel, attention, preset, sequences
from saccade.checks import InputError
from saccade.networks import Gaussian
from saccade.sequences import Sequences

ENTITIES = {"hand": (0, 1), "cup": (2,), "screen": (4, 5)}
SMALL = {
    "latent": 4,
    "memory_hidden": (8,),
    "initial_hidden": (8,),
    "forward_shared": (8,),
    "inverse_shared": (8,),
    "skip_shared": (16,),
}


def model_of(action=2, **changes):
    """An untrained model with large weights, so that what it sees matters to where it looks."""
    settings = preset(observation=6, action=action, context=3, **SMALL | changes)
    model = EventModel(settings, key=jax.random.key(0))
    return jax.tree.map(lambda array: 2 * array.astype(jnp.float64), model)


def example(steps=12, batch=9, seed=1):
    random = np.random.default_rng(seed)
    return jnp.asarray(random.normal(size=(steps, batch, 6))), jnp.asarray(random.normal(size=(batch, 2)))


def watch(model, observation, first_action, way=attention.watch, **changes):
    how = {"entities": ENTITIES, "about": (0, 1), "key": jax.random.key(3), "noise": 1.0} | changes
    return way(model, observation, first_action, **how)


# --- What is seen --------------------------------------------------------------------------------------------------


def test_only_dimensions_of_other_entities_are_noisy():
    expected = [[0, 0, 1, 0, 1, 1], [1, 1, 0, 0, 1, 1], [1, 1, 1, 0, 0, 0]]
    np.testing.assert_array_equal(attention.unattended(ENTITIES, 6), expected)


def test_a_dimension_that_two_entities_share_is_clear_with_either():
    shared = attention.unattended({"hand": (0, 1), "tool": (1, 2)}, 3)
    np.testing.assert_array_equal(shared, [[0, 0, 1], [1, 0, 0]])


def test_noise_has_the_wanted_deviation_and_leaves_the_attended_to_the_last_bit():
    observation = jax.random.normal(jax.random.key(0), (25, 4000, 6))
    others = attention.unattended(ENTITIES, 6)
    seen, focus = attention.look_around(jax.random.key(1), observation, others, noise=0.05)
    masked = np.asarray(focus @ others) > 0
    np.testing.assert_array_equal(np.asarray(seen)[~masked], np.asarray(observation)[~masked])
    assert np.std(np.asarray(seen - observation)[masked]) == pytest.approx(0.05, rel=0.01)


def test_the_random_focus_changes_at_so_many_steps_and_meets_every_entity_alike():
    focus = np.asarray(attention.random_focus(jax.random.key(0), 25, 6000, 3, changes=5))
    np.testing.assert_array_equal(focus.sum(-1), 1)
    changed = (np.diff(focus, axis=0) != 0).any(-1).sum(0)
    assert changed.max() == 5
    # A change goes to any entity, so a third of the five cannot be seen.
    assert changed.mean() == pytest.approx(5 * 2 / 3, abs=0.05)
    np.testing.assert_allclose(focus.mean((0, 1)), 1 / 3, atol=0.02)


def test_a_focus_with_more_changes_than_steps_may_change_at_every_one():
    focus = attention.random_focus(jax.random.key(0), 4, 10, 3, changes=50)
    assert focus.shape == (4, 10, 3)


# --- Where to look -------------------------------------------------------------------------------------------------


def test_uncertainty_is_the_sum_of_chosen_variances_or_their_entropy():
    said = Gaussian(jnp.zeros((1, 3)), jnp.array([[1.0, 2.0, 4.0]]))
    assert attention.uncertainty(said, (0, 2))[0] == 5.0
    covariance = 2 * np.pi * np.e * np.diag([1.0, 4.0])
    expected = 0.5 * np.log(np.linalg.det(covariance))
    assert attention.uncertainty(said, (0, 2), "entropy")[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("memory", ["gatel0rd", "gru"])
@pytest.mark.parametrize("protocol", ["paper", "original"])
@pytest.mark.parametrize("intra", [0.0, 0.5, 1.0])
def test_carrying_the_state_gives_what_replaying_everything_gives(memory, protocol, intra):
    model = model_of(memory=memory)
    given = example()
    carried = watch(model, *given, intra=intra, protocol=protocol)
    replayed = watch(model, *given, attention.watch_replayed, intra=intra, protocol=protocol)
    assert (np.diff(carried.focus, axis=0) != 0).any((0, 2)).mean() > 0.5  # else a wrong past could go unseen
    for one, other in zip(jax.tree.leaves(carried), jax.tree.leaves(replayed), strict=True):
        assert one.dtype == jnp.float64
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_the_protocols_differ_only_in_how_the_past_is_seen_while_comparing():
    model, given = model_of(), example()
    paper, original = (watch(model, *given, protocol=protocol) for protocol in ("paper", "original"))
    np.testing.assert_allclose(paper.intra[0], original.intra[0])  # no past yet
    assert np.abs(np.asarray(paper.intra[3:] - original.intra[3:])).max() > 1e-6


def test_without_noise_the_protocols_are_the_same():
    model, given = model_of(), example()
    paper, original = (watch(model, *given, protocol=protocol, noise=0.0) for protocol in ("paper", "original"))
    np.testing.assert_allclose(paper.intra, original.intra, atol=1e-12)


def test_watching_is_what_the_model_does_when_given_the_chosen_focus_and_what_is_seen_with_it():
    model, (observation, first_action) = model_of(), example()
    found = watch(model, observation, first_action)
    noise = jax.random.normal(jax.random.key(3), observation.shape)
    others = attention.unattended(ENTITIES, 6)
    seen = attention.seen(observation, found.focus, noise, others)
    followed = model.forward_inverse.observe_closed(seen, first_action, found.focus)
    np.testing.assert_allclose(found.latent, followed.latent, atol=1e-12)
    np.testing.assert_allclose(found.observation.mean, followed.observation.mean, atol=1e-12)
    np.testing.assert_allclose(found.action[1:], followed.action.mean[:-1], atol=1e-12)
    skip = model.skip(seen, found.latent, found.focus)
    np.testing.assert_allclose(found.boundary.variance, skip.variance, atol=1e-12)


@pytest.mark.parametrize(("intra", "which"), [(1.0, "intra"), (0.0, "inter")])
def test_the_chosen_focus_is_the_one_that_leaves_least_uncertainty(intra, which):
    found = watch(model_of(), *example(), intra=intra)
    np.testing.assert_array_equal(found.focus.argmax(-1), getattr(found, which).argmin(-1))


def test_each_sequence_may_weigh_both_uncertainties_its_own_way():
    model, (observation, first_action) = model_of(), example(batch=6)
    weights = np.array([0.0, 1.0, 0.5] * 2)
    together = watch(model, observation, first_action, intra=weights)
    for weight in (0.0, 0.5, 1.0):
        alone = watch(model, observation, first_action, intra=weight)
        np.testing.assert_array_equal(together.focus[:, weights == weight], alone.focus[:, weights == weight])


def knowing(model, first_variance):
    """The model with a forward variance of each dimension that hangs on the focus alone, if its features do."""
    last = model.forward_inverse.forward.variance.layers[-1]
    return eqx.tree_at(
        lambda it: it.forward_inverse.forward.variance.layers[-1].bias,
        model,
        last.bias.at[0].set(first_variance),
    )


def test_only_the_wanted_dimensions_count():
    given = example()
    plain, doubtful = model_of(), knowing(model_of(), 30.0)
    about_others = {"about": (4, 5), "intra": 1.0}
    same = [watch(model, *given, **about_others).intra for model in (plain, doubtful)]
    np.testing.assert_allclose(*same)
    assert np.abs(np.subtract(*[watch(model, *given, about=(0,)).intra for model in (plain, doubtful)])).min() > 1


def test_one_step_at_a_time_is_the_same_as_all_at_once():
    model, (observation, first_action) = model_of(), example()
    whole = watch(model, observation, first_action)
    noise = jax.random.normal(jax.random.key(3), observation.shape)
    others = attention.unattended(ENTITIES, 6)
    latent = attention.begin(model, observation[0], noise[0], first_action, others)
    for step, now in enumerate(observation):
        action = first_action if step == 0 else None
        latent, look = attention.choose(model, latent, now, noise[step], action, unattended=others, about=(0, 1))
        np.testing.assert_array_equal(look.focus, whole.focus[step])
        np.testing.assert_allclose(look.latent, whole.latent[step], atol=1e-12)


def test_models_without_actions_watch_too():
    found = watch(model_of(action=0), example()[0], None)
    assert found.action is None and found.focus.shape == (12, 9, 3)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"entities": {"hand": (0, 1), "cup": (2,)}}, "wanted one for each"),
        ({"entities": {"hand": (0, 1), "cup": (2,), "screen": (9,)}}, "'screen' has dimensions"),
        ({"about": (6,)}, "wanted dimensions of the observation, 0 to 5"),
        ({"about": ()}, "wanted dimensions"),
        ({"measure": "doubt"}, "choose one of entropy, variance"),
        ({"protocol": "mine"}, "choose one of original, paper"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(changes, says):
    with pytest.raises(InputError, match=says) as error:
        watch(model_of(), *example(), **changes)
    assert "\n" not in str(error.value)


def test_a_single_entity_is_no_choice():
    with pytest.raises(InputError, match="2 or more"):
        attention.unattended({"hand": (0, 1)}, 3)


# --- When ----------------------------------------------------------------------------------------------------------


def test_arrival_is_the_first_step_with_the_focus_or_the_last_if_there_is_none():
    focus = np.eye(3)[[[0, 0], [0, 2], [1, 0], [0, 0]]]
    np.testing.assert_array_equal(attention.arrival(focus), [[1, 3, 4], [1, 4, 2]])


def test_things_are_near_at_the_first_step_below_the_distance():
    observation = np.zeros((3, 2, 6))
    observation[:, 0, 0] = [0.05, 0.021, 0.019]
    observation[:, 1, 0] = 1.0
    np.testing.assert_array_equal(attention.first_near(observation, (0, 1), (2, 3), 0.02), [3, np.nan])


# --- Calibration ---------------------------------------------------------------------------------------------------


def walks(count=50, time=12, length=None):
    random = np.random.default_rng(0)
    observation = random.normal(size=(count, time + 1, 6)).cumsum(1)
    return Sequences(
        observation=observation, action=random.normal(size=(count, time, 2)), entities=ENTITIES, length=length
    )


def certain(model, variance):
    """The model with this variance everywhere, its forward mean what it sees, its skip mean 0."""

    def silent(network, mean_too):
        last = network.variance.layers[-1]
        layers = [(last.weight * 0, jnp.full_like(last.bias, variance - 1))]
        if mean_too:
            last = network.mean.layers[-1]
            layers.append((last.weight * 0, last.bias * 0))
        return layers

    inner = silent(model.forward_inverse.forward, True)
    skip = silent(model.skip.network, True)

    def where(it):
        found = []
        for network in (it.forward_inverse.forward, it.skip.network):
            for part in (network.variance, network.mean):
                found += [part.layers[-1].weight, part.layers[-1].bias]
        return found

    return eqx.tree_at(where, model, [array for pair in (*inner, *skip) for array in pair])


def test_calibration_is_the_mean_squared_error_in_units_of_the_variance():
    over = walks()
    model = certain(model_of(), 4.0)
    rows = attention.calibration(model, over, key=jax.random.key(0), noise=0.0)
    assert len(rows) == 2 * 3 * 6
    forward = [row for row in rows if row["network"] == "forward"]
    by_dimension = {
        name: sum(row["ratio"] * row["count"] for row in forward if row["dimension"] == name) / (50 * 12)
        for name in over.observation_names
    }
    expected = (np.diff(over.observation, axis=1) ** 2).mean((0, 1)) / 4.0
    np.testing.assert_allclose(list(by_dimension.values()), expected, rtol=1e-4)
    np.testing.assert_allclose([row["variance"] for row in rows], 4.0, rtol=1e-5)


def test_noise_on_what_is_not_attended_shows_in_its_calibration_only():
    model = certain(model_of(), 4.0)
    rows = attention.calibration(model, walks(), key=jax.random.key(0), noise=20.0)
    ratio = {(row["network"], row["attended"], row["dimension"]): row["ratio"] for row in rows}
    for entity, own in ENTITIES.items():
        for dimension in range(6):
            noisy = ratio["forward", entity, f"observation_{dimension}"] > 20
            of_another = any(dimension in other for name, other in ENTITIES.items() if name != entity)
            assert noisy == (dimension not in own and of_another)


def test_skips_are_measured_against_given_boundaries():
    over = walks()
    model = certain(model_of(), 1.0)
    only_last = np.zeros((12, 50), bool)
    only_last[-1] = True
    rows = attention.calibration(model, over, key=jax.random.key(0), boundary=only_last)
    skip = [row for row in rows if row["network"] == "skip" and row["dimension"] == "observation_0"]
    total = sum(row["ratio"] * row["count"] for row in skip) / sum(row["count"] for row in skip)
    assert total == pytest.approx((over.observation[:, 11, 0] ** 2).mean(), rel=1e-4)


def test_calibration_does_not_look_at_padding():
    length = np.full(50, 7)
    whole = walks(length=length)
    observation = whole.observation.copy()
    observation[:, 8:] = np.nan
    other = Sequences(observation=observation, action=whole.action, entities=ENTITIES, length=length)
    model = model_of()
    rows = [attention.calibration(model, over, key=jax.random.key(0)) for over in (whole, other)]
    assert rows[0] == rows[1]
    assert sum(row["count"] for row in rows[0] if row["network"] == "skip") == 50 * 6 * 6


def test_scaling_makes_all_ratios_one_on_the_sequences_it_was_found_with():
    over, model = walks(), model_of()
    scaling = attention.scaling(model, over, key=jax.random.key(0))
    rows = attention.calibration(model, over, key=jax.random.key(0), scaling=scaling)
    np.testing.assert_allclose([row["ratio"] for row in rows if row["count"]], 1.0, rtol=1e-4)
    plain = attention.calibration(model, over, key=jax.random.key(0))
    assert max(abs(row["ratio"] - 1) for row in plain) > 0.5
    for own, scaled in zip(plain, rows, strict=True):
        assert scaled["variance"] == pytest.approx(own["variance"] * own["ratio"], rel=1e-4)


@pytest.mark.parametrize("way", [attention.watch, attention.watch_replayed])
def test_a_focus_is_chosen_by_scaled_variances(way):
    model, over = model_of(), walks()
    batch = jax.tree.map(jnp.asarray, sequences.batch(over))
    given = {"entities": ENTITIES, "about": (0, 1), "key": jax.random.key(1), "intra": 1.0}
    plain = way(model, batch.observation, batch.action[0], **given)
    ones = jnp.ones((3, 6))
    same = way(model, batch.observation, batch.action[0], scaling=attention.Scaling(ones, ones), **given)
    np.testing.assert_array_equal(plain.focus, same.focus)
    never = ones.at[0].set(1e6)  # what is said with a focus on the first entity is not to be believed
    other = way(model, batch.observation, batch.action[0], scaling=attention.Scaling(never, ones), **given)
    assert not np.asarray(other.focus)[..., 0].any()
    first = np.asarray(plain.intra)[0] * np.array([1e6, 1, 1])
    np.testing.assert_allclose(np.asarray(other.intra)[0], first, rtol=1e-5)
