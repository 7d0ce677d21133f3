"""Ways of moving and events are told by their rules; the set is made the same however often it is interrupted."""

import numpy as np
import pytest

from saccade import sequences
from saccade.checks import InputError
from saccade.worlds import diverse
from saccade.worlds.fetch import FINGERS, GOAL, HAND, OBJECT

pytestmark = pytest.mark.xdist_group("fetch")
ROWS = 26
SMALL = {"train": 3, "test": 2}


def _sequence(thing, hand, goal):
    """One sequence from the object's, the hand's and the goal's places, open fingers at first."""
    seen = np.zeros((1, ROWS, 11))
    seen[0, :, OBJECT], seen[0, :, HAND], seen[0, :, GOAL], seen[0, :, FINGERS] = thing, hand, goal, 0.025
    seen[0, :5, FINGERS] = 0.05
    return seen


def _along(way, begin=8, end=18):
    """From the origin to `way`, starting and arriving at these rows."""
    return np.clip((np.arange(ROWS) - begin) / (end - begin), 0, 1)[:, None] * way


LIFT = _sequence(_along([0.1, 0, 0.2]), _along([0.1, 0, 0.2]), [0.1, 0, 0.2])
PUSH = _sequence(_along([0, 0.2, 0]), _along([0, 0.2, 0]) - [0, 0.09, 0], [0, 0.2, 0])  # with an open finger's back
PUSH[..., FINGERS] = 0.05
FLICK = _sequence(_along([0.2, 0, 0]), [-0.04, 0, 0], [0.2, 0, 0])
FAIL = _sequence(_along([0.2, 0, 0]), _along([0.2, 0, 0]), [-0.2, 0, 0])


def test_each_way_of_moving_is_told():
    found = [diverse.WAYS[int(diverse.ways(seen)[0])] for seen in (LIFT, PUSH, FLICK, FAIL)]
    assert found == ["lift", "push", "flick", "fail"]


def test_only_a_lift_to_a_goal_in_the_air_that_is_never_dropped_is_a_grasp():
    dropped, closed = LIFT.copy(), LIFT.copy()
    dropped[0, 14, HAND] += 0.04
    closed[0, :, FINGERS] = 0.02
    found = [bool(diverse.grasps(seen)[0]) for seen in (LIFT, dropped, closed, PUSH, FLICK, FAIL)]
    assert found == [True, False, False, False, False, False]


def test_events_begin_at_contact_lift_off_and_arrival():
    (events,) = diverse.events(LIFT)
    assert [diverse.EVENTS[events[row]] for row in (0, 8, 10, 15, 17, 25)] == [
        *("approach", "approach", "air", "air", "arrived", "arrived")
    ]
    (events,) = diverse.events(PUSH)
    assert [diverse.EVENTS[events[row]] for row in (0, 8, 10, 15, 17)] == [
        *("approach", "approach", "move", "move", "arrived")
    ]


def test_an_object_put_back_where_it_lay_has_been_touched():
    there_and_back = PUSH.copy()
    there_and_back[0, 13:, OBJECT] = 0
    assert diverse.EVENTS[diverse.events(there_and_back)[0, -1]] == "move"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return diverse.make(tmp_path_factory.mktemp("made"), SMALL, seed=1)


def test_sequences_are_whole_and_say_how_they_came_about(made):
    train = sequences.load(made["train"])
    sequences.verify(made["train"])
    assert train.observation.shape == (3, 26, 11)
    assert train.action.shape == (3, 25, 4)
    assert (np.abs(train.action) <= 1).all()
    assert train.kind_names == diverse.WAYS and train.event_names == diverse.EVENTS
    assert train.origin["command"] == "saccade data apex --train 3 --seed 1"
    moved = np.linalg.norm(train.observation[:, -1, OBJECT] - train.observation[:, 0, OBJECT], axis=-1)
    assert (moved > 0.02).any()
    assert not (made["train"].parent / ".unfinished").exists()


def test_an_interrupted_set_is_finished_with_the_same_bytes(made, tmp_path, monkeypatch):
    monkeypatch.setattr(diverse, "BLOCK", 2)
    whole, broken = tmp_path / "whole", tmp_path / "broken"

    class StoppedError(Exception):
        pass

    def stop(split, done, wanted):
        raise StoppedError

    with pytest.raises(StoppedError):
        diverse.make(broken, {"train": 3}, seed=1, progress=stop)
    assert list(broken.glob(".unfinished/*.safetensors"))
    blocks = []
    monkeypatch.setattr(diverse, "_block", _counting(diverse._block, blocks))
    there = diverse.make(broken, {"train": 3}, seed=1, workers=1)["train"]
    assert len(blocks) == 1
    assert there.read_bytes() == diverse.make(whole, {"train": 3}, seed=1)["train"].read_bytes()


def _counting(block, calls):
    def counted(*given):
        calls.append(given)
        return block(*given)

    return counted


def test_nonsense_is_refused(tmp_path):
    with pytest.raises(InputError, match="wanted at least 1"):
        diverse.make(tmp_path, {"train": 0})
    with pytest.raises(InputError, match="unknown"):
        diverse.make(tmp_path, {"training": 1})
