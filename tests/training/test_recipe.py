"""Recipes and members: the paper's numbers to the digit, and one line for what is wrong."""

import json
from dataclasses import asdict, replace

import pytest
from tiny import SETTINGS, small_members, small_recipe

from saccade import preset
from saccade.checks import InputError
from saccade.training import RECIPES, Member, Recipe, members, recipe
from saccade.training.recipe import PER_MODEL, read_member


def test_the_paper_recipe_has_the_papers_numbers_to_the_digit():
    assert asdict(recipe("paper")) == {
        "name": "paper",
        "updates": 30_000 * 50,
        "evaluate_every": 100 * 50,
        "evaluate_on": None,
        "batch": 3 * 64,
        "standardise": False,
        "skip_steps": None,
        "learning_rate": 5e-4,
        "skip_learning_rate": 1e-4,
        "warmup": 0,
        "sparsity_warmup": 0,
        "final": 1.0,
        "epsilon": 1e-4,
        "clip": 0.1,
        "skip_clip": None,
        "beta": 0.5,
        "focus_changes": None,
        "focus_noise": 0.05,
        "boundaries": "learned",
    }
    assert recipe("paper").updates // recipe("paper").evaluate_every == 300


def test_the_fast_recipe_stays_within_20_000_updates_and_is_the_default():
    assert recipe() == RECIPES["fast"]
    assert recipe().updates <= 20_000
    assert recipe().standardise


def test_a_changed_recipe_has_what_was_changed_and_another_name():
    changed = recipe("paper", updates=7, clip=None)
    assert changed == replace(RECIPES["paper"], name="paper-changed", updates=7, clip=None)
    assert recipe("paper", updates=1_500_000) == RECIPES["paper"]
    assert recipe("paper", updates=7, name="mine").name == "mine"


def whole(name, given, lowest):
    return f"{name} is {given!r}: wanted a whole number from {lowest} to 2147483647"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"updates": 0}, whole("updates", 0, 1)),
        ({"updates": "many"}, whole("updates", "many", 1)),
        ({"updates": 10.0}, whole("updates", 10.0, 1)),
        ({"updates": True}, whole("updates", True, 1)),
        ({"updates": 2**31}, whole("updates", 2**31, 1)),
        ({"updates": None}, whole("updates", None, 1)),
        ({"evaluate_every": -5}, whole("evaluate_every", -5, 1)),
        ({"evaluate_on": 0}, whole("evaluate_on", 0, 1)),
        ({"batch": 1.5}, whole("batch", 1.5, 1)),
        ({"skip_steps": -1}, whole("skip_steps", -1, 0)),
        ({"warmup": "no"}, whole("warmup", "no", 0)),
        ({"learning_rate": 0}, "learning_rate is 0: wanted a number above 0"),
        ({"learning_rate": "quick"}, "learning_rate is 'quick': wanted a number above 0"),
        ({"learning_rate": None}, "learning_rate is None: wanted a number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan: wanted a number above 0"),
        ({"epsilon": None}, "epsilon is None: wanted a number above 0"),
        ({"epsilon": float("inf")}, "epsilon is inf: wanted a number above 0"),
        ({"clip": -1}, "clip is -1: wanted a number above 0"),
        ({"final": 1.5}, "final is 1.5: wanted a number from 0 to 1"),
        ({"beta": "half"}, "beta is 'half': wanted a number from 0 to 1"),
        ({"standardise": "yes"}, "standardise is 'yes': wanted true or false"),
        ({"name": "a/b"}, "name is 'a/b': wanted letters, digits and . + - _ only"),
        ({"name": 5}, "name is 5: wanted letters, digits and . + - _ only"),
    ],
)
def test_a_wrong_value_is_one_clear_line(changes, told, untyped):
    with pytest.raises(InputError) as raised:
        recipe("fast", **changes)
    assert str(raised.value) == told


def test_unknown_names_are_told_with_those_there_are():
    with pytest.raises(InputError, match="recipe 'slow' is unknown: choose one of fast, paper"):
        recipe("slow")
    with pytest.raises(
        InputError, match="recipe setting 'rate' is unknown: choose one of batch, beta, boundaries, clip"
    ):
        recipe("fast", rate=1)


def test_members_are_every_sparsity_with_every_seed_and_the_gru_without_one():
    found = small_members(sparsities=(0.0, 1.0), seeds=(5, 6), gru=True)
    assert [one.label for one in found] == [
        "fast-changed_gatel0rd_0_seed5",
        "fast-changed_gatel0rd_0_seed6",
        "fast-changed_gatel0rd_1_seed5",
        "fast-changed_gatel0rd_1_seed6",
        "fast-changed_gru_seed5",
        "fast-changed_gru_seed6",
    ]
    assert {one.settings for one in found[:4]} == {SETTINGS}
    assert {one.settings for one in found[4:]} == {replace(SETTINGS, memory="gru")}
    assert {one.sparsity for one in found[4:]} == {0.0}


def test_without_settings_members_have_the_papers_sizes():
    assert members(recipe("paper"))[0].settings == preset("paper")


def test_no_two_members_have_the_same_name():
    with pytest.raises(InputError, match="fast-changed_gatel0rd_1_seed5 is wanted twice: wanted each λ and seed once"):
        small_members(seeds=(5, 6, 5))
    with pytest.raises(InputError, match="no models to train: wanted at least one λ or the GRU, and at least one seed"):
        small_members(seeds=())


@pytest.mark.parametrize(
    ("sparsity", "seed", "memory", "told"),
    [
        (-1.0, 5, "gatel0rd", "λ is -1.0: wanted a number, 0 or above"),
        (float("nan"), 5, "gatel0rd", "λ is nan: wanted a number, 0 or above"),
        ("much", 5, "gatel0rd", "λ is 'much': wanted a number, 0 or above"),
        (1.0, -1, "gatel0rd", whole("seed", -1, 0)),
        (1.0, 2**32, "gatel0rd", whole("seed", 2**32, 0)),
        (1.0, 5, "gru", "λ is 1.0 for a GRU, which has no gates to close: wanted 0"),
    ],
)
def test_a_wrong_member_is_one_clear_line(sparsity, seed, memory, told, untyped):
    with pytest.raises(InputError) as raised:
        Member(replace(SETTINGS, memory=memory), sparsity, seed, small_recipe())
    assert str(raised.value) == told


def test_a_member_goes_through_json_and_back():
    for one in (*small_members(gru=True, skip_steps=None), *members(recipe("paper"), settings=preset("original"))):
        assert read_member(json.loads(json.dumps(one.about()))) == one
        assert hash(read_member(one.about()).shape) == hash(one.shape)  # lists have become tuples again


def test_settings_of_another_version_are_named():
    about = small_members()[0].about()
    about["recipe"]["momentum"] = 0.9
    with pytest.raises(InputError, match=r"settings unlike this version's \(.*momentum.*\): use the saccade"):
        read_member(about)


def test_one_program_trains_what_differs_in_numbers_only():
    one = small_members()[0]
    numbers = {name: getattr(Recipe, name) for name in PER_MODEL}
    assert replace(one, sparsity=5.0, seed=9, recipe=replace(one.recipe, name="other", **numbers)).shape == one.shape
    for changes in ({"updates": 41}, {"batch": 24}, {"standardise": False}, {"skip_steps": 2}, {"evaluate_on": 12}):
        assert replace(one, recipe=replace(one.recipe, **changes)).shape != one.shape
    assert replace(one, settings=replace(SETTINGS, latent=5)).shape != one.shape
