"""Scripted sequences do what their kind promises, say truly which event is when, and repeat to the byte."""

import numpy as np
import pytest

from saccade.checks import InputError
from saccade.worlds import scripted
from saccade.worlds.fetch import FINGERS, GOAL, HAND, OBJECT, Fetch
from saccade.worlds.scripted import EVENTS, KINDS, STEPS, generate

pytestmark = pytest.mark.xdist_group("scripted")
COUNT = 96
REACH, GRASP, TRANSPORT, HOLD, POINT, STRETCH = range(6)


@pytest.fixture(scope="module")
def world():
    with Fetch(workers=2) as world:
        yield world


@pytest.fixture(scope="module")
def made(world):
    return {kind: generate(kind, COUNT, seed=11, world=world) for kind in KINDS}


def _distance(seen, one, other):
    return np.linalg.norm(seen[..., one].astype(float) - seen[..., other], axis=-1)


def _first(event, phase):
    """The first step of a phase in each sequence that has it, and which those are."""
    has = (event == phase).any(1)
    return np.argmax(event[has] == phase, axis=1), has


def _bytes(made):
    return [getattr(made, name).tobytes() for name in ("observation", "action", "event", "table_height")]


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_and_types_are_as_promised(made, kind):
    shapes = {name: getattr(made[kind], name).shape for name in ("observation", "action", "event", "table_height")}
    assert shapes == {
        "observation": (COUNT, STEPS + 1, 11),
        "action": (COUNT, STEPS, 4),
        "event": (COUNT, STEPS),
        "table_height": (COUNT,),
    }
    assert made[kind].observation.dtype == made[kind].action.dtype == np.float32
    assert made[kind].event.dtype == np.int8
    assert np.isfinite(made[kind].observation).all()
    assert np.abs(made[kind].action).max() <= 1


def test_objects_end_at_the_goal(made):
    end = made[KINDS[0]].observation[:, -1]
    assert _distance(end, OBJECT, GOAL).max() < 0.05
    assert np.median(_distance(end, OBJECT, GOAL)) < 0.01


def test_phases_come_in_order_and_cover_every_step(made):
    for kind, begins, allowed in (
        ("reach-grasp-transport", REACH, [REACH, GRASP, TRANSPORT, HOLD]),
        ("point", POINT, [POINT, HOLD]),
        ("stretch", STRETCH, [STRETCH]),
    ):
        event = made[kind].event
        assert set(event.flat) <= set(allowed)
        order = np.vectorize(allowed.index)(event)
        assert np.all(event[:, 0] == begins)
        assert set(np.diff(order, axis=1).flat) <= {0, 1}
    assert (made["point"].event == HOLD).any(1).all()
    assert (made[KINDS[0]].event == TRANSPORT).any(1).all()
    assert (made[KINDS[0]].event == HOLD).any(1).mean() > 0.9


def test_grasping_begins_with_the_object_between_the_fingers(made):
    seen, event = made[KINDS[0]].observation, made[KINDS[0]].event
    begin, has = _first(event, GRASP)
    assert has.all()
    assert 6 <= np.median(begin) <= 10
    before, then = seen[np.arange(COUNT), begin - 1], seen[np.arange(COUNT), begin]
    assert _distance(then, HAND, OBJECT).max() < 0.025
    assert np.median(_distance(before, HAND, OBJECT)) > np.median(_distance(then, HAND, OBJECT))
    assert _distance(seen[np.arange(COUNT), begin], OBJECT, slice(3, 6)).max() == 0
    assert np.linalg.norm(then[:, OBJECT] - seen[:, 0, OBJECT], axis=1).max() < 0.01, "reaching pushed the object"
    assert then[:, FINGERS].min() > 0.03, "the hand came closed"


def test_transport_begins_with_the_object_held_and_carries_it(made):
    seen, event = made[KINDS[0]].observation, made[KINDS[0]].event
    begin, has = _first(event, TRANSPORT)
    assert has.all()
    assert np.percentile(begin, 95) <= 12
    then = seen[np.arange(COUNT), begin]
    assert np.all(np.abs(then[:, FINGERS].sum(1) - 0.05) < 0.006), "the fingers are not around the object"
    carried = np.arange(STEPS + 1) >= begin[:, None]
    assert _distance(seen, HAND, OBJECT)[carried].max() < 0.02, "the object was lost on the way"


@pytest.mark.parametrize(("kind", "which"), [("reach-grasp-transport", OBJECT), ("point", HAND)])
def test_hold_begins_on_arrival_and_stays(made, kind, which):
    seen, event = made[kind].observation, made[kind].event
    begin, has = _first(event, HOLD)
    away = _distance(seen[has], which, GOAL)
    rows = np.arange(has.sum())
    assert away[rows, begin].max() < 0.02
    late = (begin > 1) & (event[has][rows, begin - 2] == event[has][rows, begin - 1])  # it did not begin at the goal
    assert away[rows[late], begin[late] - 1].min() > 0.01, "it had arrived long before"
    assert away[np.arange(STEPS + 1) >= begin[:, None]].max() < 0.03


@pytest.mark.parametrize(("kind", "target", "after"), [("point", GOAL, HOLD), ("reach-grasp-transport", OBJECT, GRASP)])
def test_movements_keep_their_direction_and_slow_down(made, kind, target, after):
    seen, event = made[kind].observation.astype(float), made[kind].event
    begin, _ = _first(event, after)
    for sequence in np.flatnonzero(begin >= 5):
        way = seen[sequence, 0, target] - seen[sequence, 0, HAND]
        steps = np.diff(seen[sequence, : begin[sequence] + 1, HAND], axis=0)
        straight = steps @ way / np.linalg.norm(way) / np.linalg.norm(steps, axis=1)
        assert np.median(straight) > 0.95
        assert np.linalg.norm(steps[-1]) < 0.8 * np.linalg.norm(steps, axis=1).max()
    assert (begin >= 5).sum() > 10


@pytest.mark.parametrize("kind", ["point", "stretch"])
def test_nobody_else_moves_the_object(made, kind):
    objects = made[kind].observation[:, :, OBJECT]
    assert np.linalg.norm(objects - objects[:, :1], axis=-1).max() < 0.01


def test_stretching_repeats_one_command_with_motor_noise(made):
    action = made["stretch"].action.astype(float)
    free = np.abs(action).max(1) < 0.95  # else clipping hides some of the noise
    spread = action.std(axis=1, ddof=1)[free]
    assert spread.mean() == pytest.approx(0.05, rel=0.05)
    assert action.mean(1).std(0).min() > 0.2
    assert np.linalg.norm(np.ptp(made["stretch"].observation[:, :, HAND], axis=1), axis=1).min() > 0.02


def test_table_heights_vary_and_move_everything(made):
    one = made[KINDS[0]]
    assert np.ptp(one.table_height) > 0.15
    assert one.table_height.min() >= 0.3
    assert one.table_height.max() <= 0.5
    np.testing.assert_allclose(one.observation[:, 0, 5] - one.table_height, 0.025, atol=1e-3)
    assert np.ptp(one.observation[:, 0, 2] - one.table_height) < 1e-3


def test_stored_actions_lead_from_the_stored_start_to_the_stored_end(made, world):
    """What is stored is what was done: playing it again gives it again."""
    one = made[KINDS[0]]
    first = one.observation[:, 0].astype(float)
    state = world.start(one.table_height.astype(float), first[:, OBJECT][:, :2], first[:, GOAL])
    for step in range(5):
        state = world.step(state, one.action[:, step])
    np.testing.assert_allclose(state.observation, one.observation[:, 5], atol=1e-5)


def test_same_seed_gives_the_same_bytes_however_it_is_made(made, world, monkeypatch):
    """One worker or three, one call or several, large batches or small."""
    kind = "point"  # pointing has discarded tries, which are made again
    assert made[kind].discarded > 0
    with Fetch(workers=3) as three:
        parts = [generate(kind, 40, seed=11, world=three), generate(kind, 56, seed=11, first=40, world=three)]
    joined = [np.concatenate([getattr(part, name) for part in parts]) for name in ("observation", "action", "event")]
    assert [array.tobytes() for array in joined] == _bytes(made[kind])[:3]
    assert sum(part.discarded for part in parts) == made[kind].discarded
    monkeypatch.setattr(scripted, "_TOGETHER", 5)
    assert _bytes(generate("reach-grasp-transport", 12, seed=11, workers=1)) == [
        getattr(made["reach-grasp-transport"], name)[:12].tobytes()
        for name in ("observation", "action", "event", "table_height")
    ]


def test_every_sequence_is_its_own(made):
    starts = {start.tobytes() for kind in KINDS for start in made[kind].observation[:, 0]}
    assert len(starts) == len(KINDS) * COUNT


def test_seeds_splits_kinds_and_indices_give_different_sequences(world):
    starts = {
        generate("stretch", 1, world=world, **named).observation[0, 0].tobytes()
        for named in (
            {"seed": 1},
            {"seed": 2},
            {"seed": 1, "split": "validation"},
            {"seed": 1, "split": "test"},
            {"seed": 1, "first": 1},
        )
    }
    starts |= {generate("point", 1, seed=1, world=world).observation[0, 0].tobytes()}
    assert len(starts) == 6


@pytest.mark.parametrize(
    ("kind", "spoilt", "where"),
    [
        ("reach-grasp-transport", OBJECT, -1),
        ("reach-grasp-transport", OBJECT, 1),
        ("point", HAND, -1),
        ("point", OBJECT, 12),
        ("stretch", OBJECT, 12),
    ],
)
def test_sequences_that_fail_are_told_apart(made, kind, spoilt, where):
    seen = made[kind].observation[:3].astype(float)
    seen[1, where, spoilt] += [0.06, 0, 0]
    seen[2, 5, HAND] = np.nan
    assert scripted._succeeded(kind, seen, made[kind].event[:3]).tolist() == [True, False, False]


def test_failed_tries_are_counted_and_made_again(world, monkeypatch):
    honest = scripted._succeeded
    monkeypatch.setattr(scripted, "_succeeded", lambda *tried: honest(*tried) & (tried[1][:, 0, 10] < 0.5))
    made = generate("stretch", 20, seed=0, world=world)
    assert made.discarded > 0
    assert made.observation[:, 0, 10].max() < 0.5


def test_progress_tells_how_far_it_is(world):
    told = []
    generate("stretch", 3, seed=0, world=world, progress=lambda done, wanted: told.append((done, wanted)))
    assert told[-1] == (3, 3)


def test_no_sequences_is_an_empty_set(world):
    assert generate("point", 0, seed=0, world=world).observation.shape == (0, STEPS + 1, 11)


def test_event_names_fit_their_numbers():
    assert EVENTS == ("reach", "grasp", "transport", "hold", "point", "stretch")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"kind": "throw"}, "kind 'throw' is unknown"),
        ({"split": "exam"}, "split 'exam' is unknown"),
        ({"count": -1}, "count is -1"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"first": -2}, "first is -2"),
        ({"table_height": 1.2}, "table height 1.2"),
        ({"table_height": (0.5, 0.4)}, "lower one first"),
        ({"workers": 0}, "workers is 0"),
    ],
)
def test_wrong_arguments_say_what_was_wanted(untyped, wrong, says):
    with pytest.raises(InputError, match=says):
        generate(**{"kind": "point", "count": 1, "seed": 0, **wrong})
