"""The authors' pickles are read; pickles that would do something are refused, and nothing of them is done."""

import os
import pickle
import struct
import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade import formats
from saccade.checks import FileError
from saccade.formats import apex_pickle
from saccade.sequences import Sequences

PICKED = [0, 1, 2, 3, 4, 5, 9, 10]


@pytest.fixture(params=["rolloutbuffer", "mbrl.rolloutbuffer"])
def classes(request, monkeypatch):
    """Classes that pickle as the authors' do: attributes only, under the names of their module."""
    module = types.ModuleType(request.param)
    for name in ("RolloutBuffer", "_CustomList", "Rollout"):
        setattr(module, name, type(name, (), {"__module__": request.param}))
    monkeypatch.setitem(sys.modules, "mbrl", types.ModuleType("mbrl"))
    monkeypatch.setitem(sys.modules, request.param, module)
    return module


def transitions(time=50, seed=0, wrong=()):
    rng = np.random.default_rng(seed)
    whole, state = rng.normal(size=(time + 1, 28)), rng.normal(size=(time, 12))
    state[:, -3:] = state[0, -3:]  # the goal, which stays
    fields = {
        "observations": whole[:-1],
        "next_observations": whole[1:],
        "actions": rng.normal(size=(time, 4)),
        "env_states": state,
    }
    fields |= {"rewards": rng.normal(size=time), "successes": np.zeros(time)}
    fields |= dict(wrong)
    kept = {name: np.asarray(array) for name, array in fields.items() if array is not None}
    rollout = np.zeros(time, [(name, "f8", array.shape[1:]) for name, array in kept.items()])
    for name, array in kept.items():
        rollout[name] = array
    return rollout


def buffer(classes, rollouts):
    wrapped = []
    for data in rollouts:
        rollout = classes.Rollout()
        rollout.dtype, rollout._data = data.dtype.descr, data
        wrapped.append(rollout)
    whole = classes.RolloutBuffer()
    whole.rollouts = classes._CustomList()
    whole.rollouts.__dict__ |= {
        "max_size": None,
        "_list": wrapped,
        "modified": False,
        "number_of_latest_data_elems_added": 3,
    }
    whole._last_flat, whole.reported_flatten_warning = np.concatenate([data[["rewards"]] for data in rollouts]), False
    return whole


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_rollouts_of_every_protocol_are_read(tmp_path, classes, protocol):
    rollouts = [transitions(seed=seed) for seed in range(4)]
    path = tmp_path / "1"
    path.write_bytes(pickle.dumps(buffer(classes, rollouts), protocol))
    found = formats.read(path) if protocol > 1 else formats.read(path, "apex")
    assert found.observation.shape == (4, 26, 11)
    for rollout, observation, action in zip(rollouts, found.observation, found.action, strict=True):
        assert np.array_equal(observation[:-1, :8], rollout["observations"][:25, PICKED].astype("f4"))
        assert np.array_equal(observation[1:, :8], rollout["next_observations"][:25, PICKED].astype("f4"))
        assert np.array_equal(observation[:-1, 8:], rollout["env_states"][:25, -3:].astype("f4"))
        assert np.array_equal(action, rollout["actions"][:25].astype("f4"))
    assert found.origin["format"] == "apex"


def test_files_of_older_numpy_are_read(tmp_path, classes):
    content = pickle.dumps(buffer(classes, [transitions()]), 2)
    assert b"numpy._core" in content
    (tmp_path / "1").write_bytes(content.replace(b"numpy._core", b"numpy.core"))
    assert len(formats.read(tmp_path / "1")) == 1


def test_rollouts_of_unequal_length_keep_their_order(tmp_path, classes):
    lengths = [50, 7, 30, 2, 7]
    rollouts = [transitions(length, seed) for seed, length in enumerate(lengths)]
    (tmp_path / "1").write_bytes(pickle.dumps(buffer(classes, rollouts)))
    found = apex_pickle.read(tmp_path / "1", length=40)
    assert found.lengths.tolist() == [40, 7, 30, 2, 7]
    for rollout, action, length in zip(rollouts, found.action, found.lengths, strict=True):
        assert np.array_equal(action[:length], rollout["actions"][:length].astype("f4"))


def test_plain_lists_of_arrays_in_any_memory_order_are_read(tmp_path):
    swapped = transitions(seed=1)
    swapped = swapped.astype(swapped.dtype.newbyteorder(">"))
    for protocol in (2, 5):
        (tmp_path / "1").write_bytes(pickle.dumps([transitions(), swapped, transitions(100, 2)[::2][:50]], protocol))
        with pytest.raises(FileError, match="next step"):  # every second step is no sequence
            apex_pickle.read(tmp_path / "1")
        (tmp_path / "1").write_bytes(pickle.dumps([transitions(), swapped], protocol))
        assert np.array_equal(apex_pickle.read(tmp_path / "1").action[1], swapped["actions"][:25].astype("f4"))


BROKEN = {
    "missing": ([transitions(wrong={"env_states": None})], "rollout 0 has no env_states but observations"),
    "NaN": ([transitions(), transitions(wrong={"actions": np.full((50, 4), np.nan)})], "action holds NaN.*sequence 1"),
    "dimensions": ([transitions(wrong={"actions": np.zeros((50, 3))})], "actions have shape"),
    "few": (
        [transitions(wrong={name: np.zeros((50, 25)) for name in ("observations", "next_observations")})],
        "count, time, 31",
    ),
    "unequal": ([transitions(), transitions(wrong={"actions": np.zeros((50, 3))})], "one number of dimensions"),
    "short": ([transitions(1)], "length is 1"),
    "no fields": ([np.zeros((50, 28))], "has no observations but no fields"),
    "empty": ([], "no rollouts"),
    "objects": ([np.array([None, "a"], object)], "of type 'O8': refused"),
    "texts": ([np.array(["a", "b"])], "of type 'U1': refused"),
    "fields of objects": ([np.zeros(2, [("observations", "O")])], "of type 'O8': refused"),
    "fields within fields": ([np.zeros(2, [("observations", [("x", "f8")])])], "refused"),
    "no arrays": ([1, 2], "a rollout is a int"),
    "no list": ({"a": 1}, "it holds a dict"),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_files_are_named_in_one_line(tmp_path, content, message):
    for protocol in (2, 5):
        (tmp_path / "1").write_bytes(pickle.dumps(content, protocol))
        with pytest.raises(FileError, match=rf"/1: .*{message}") as caught:
            apex_pickle.read(tmp_path / "1")
        assert "\n" not in str(caught.value)


def test_a_file_cut_short_anywhere_is_refused(tmp_path, classes):
    content = pickle.dumps(buffer(classes, [transitions()]))
    for size in [*range(0, 1500, 7), *range(1500, len(content), 997), len(content) - 1]:
        (tmp_path / "1").write_bytes(content[:size])
        with pytest.raises(FileError):
            apex_pickle.read(tmp_path / "1")


# --- Pickles that would do something -------------------------------------------------------------------------------


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments, state=None):
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.reduced


def in_objects(evil):
    array = np.empty(1, object)
    array[0] = evil
    return array


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "wrap", [lambda evil: evil, lambda evil: [transitions(3), evil], in_objects, lambda evil: {"a": (evil,)}]
)
@pytest.mark.parametrize("way", ["system", "eval", "getattr", "partial", "numpy"])
def test_a_pickle_that_does_something_is_refused_and_does_nothing(tmp_path, protocol, wrap, way):
    import functools

    marker = tmp_path / "run"
    evil = {
        "system": lambda: Calls(os.system, f"touch {marker}"),
        "eval": lambda: Calls(eval, f"__import__('os').mkdir({str(marker)!r})"),
        "getattr": lambda: Calls(getattr, Calls(__import__, "os"), "mkdir"),
        "partial": lambda: Calls(functools.partial(os.mkdir), str(marker)),
        "numpy": lambda: Calls(np.lib.format.open_memmap, str(marker), "w+", None, (1,)),
    }[way]()
    content = pickle.dumps(wrap(evil), protocol)
    pickle.loads(content)
    if way != "getattr":  # which only fetches what could then be called
        assert marker.exists(), "the pickle would do nothing anyway"
        marker.rmdir() if marker.is_dir() else marker.unlink()
    (tmp_path / "1").write_bytes(content)
    with pytest.raises(FileError, match="refused"):
        apex_pickle.read(tmp_path / "1")
    assert not marker.exists()


def short(text):
    return b"\x8c" + bytes([len(text)]) + text.encode()


def called(module, name, *arguments):
    """A pickle of protocol 4 that calls what the module names with the arguments."""
    return b"\x80\x04" + short(module) + short(name) + b"\x93(" + b"".join(map(short, arguments)) + b"tR."


RAW = {
    "nested name": called("numpy", "core.multiarray._reconstruct.__globals__", "a"),
    "nested into builtins": called("numpy", "dtype.__init__.__globals__.__builtins__.eval", "1"),
    "name of a method": called("numpy", "ndarray.tofile", "run"),
    "dots in the module": called("os.path", "os.system", "touch run"),
    "numpy function": called("numpy", "load", "run"),
    "numpy fromfile": called("numpy", "fromfile", "run"),
    "numpy runs code": called("numpy.testing._private.utils", "runstring", "import os; os.mkdir('run')", "x"),
    "class of the authors' module": called("rolloutbuffer", "rollout_load", "x"),
    "module that ends alike": called("evil_rolloutbuffer.os", "system", "touch run"),
    "name that begins alike": called("rolloutbuffer", "Rollout.__init__.__globals__", "x"),
    "line break in the name": called("numpy\ndtype", "x\n", "x"),
    "empty names": called("", "", "x"),
    "old instruction INST": b"(S'touch run'\nios\nsystem\n.",
    "old instruction OBJ": b"(cos\nsystem\nS'touch run'\no.",
    "INST of a known name": b"(S'touch run'\ninumpy\ndtype\n.",
    "GLOBAL": b"cos\nsystem\n(S'touch run'\ntR.",
    "BUILD with __setstate__": b"\x80\x02cos\nsystem\nq\x00}X\x0c\x00\x00\x00__setstate__h\x00sbX\x03\x00\x00\x00runb.",
    "persistent id": b"Prun\n.",
    "binary persistent id": b"\x80\x02X\x03\x00\x00\x00runQ.",
    "extension registry": b"\x80\x02\x82\x01.",
    "buffers from outside": b"\x80\x05\x97.",
    "import of a module": called("this", "c"),
    "NEWOBJ_EX": b"\x80\x04" + short("os") + short("system") + b"\x93)}\x92.",
    "name that is no text": b"\x80\x04)" + short("x") + b"\x93.",
    "call of a text": b"\x80\x04" + short("os.system") + b"(tR.",
    "state of a text": b"\x80\x04" + short("os.system") + b"}b.",
    "nothing on the stack": b"\x80\x04R.",
    "no mark": b"\x80\x04t.",
    "nothing remembered": b"\x80\x04h\x07.",
    "unknown instruction": b"\xff.",
}


@pytest.mark.parametrize("content", RAW.values(), ids=RAW)
def test_hand_made_tricks_are_refused(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "1").write_bytes(content)
    sys.modules.pop("this", None)
    with pytest.raises(FileError) as caught:
        apex_pickle.read(tmp_path / "1")
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["1"]
    assert "this" not in sys.modules


def array_pickle(code="f8", shape=(2,), content=b"\0" * 16, state=(3, "<", None, None, None, -1, -1, 0)):
    """A pickle of one array with whatever is claimed about it."""
    made = np.zeros(1)
    function, arguments, _ = made.__reduce__()
    dtype = Calls(np.dtype, code, False, True, state=state)
    return pickle.dumps([Calls(function, *arguments, state=(1, shape, dtype, False, content))], 4)


FIELDS = (("a",), {"a": (np.dtype("f8"), 1000)}, 8, 1, 16)
CLAIMS = {
    "more than there is": array_pickle(shape=(2**40,)),
    "product that overflows": array_pickle(shape=(2**32, 2**32)),
    "negative": array_pickle(shape=(-1, -2)),
    "no numbers": array_pickle(shape=("a",)),
    "field outside": array_pickle("V8", (2,), state=(3, "|", None, *FIELDS)),
    "entries of no size": array_pickle("V0", (2**40,), b"", (3, "|", None, (), {}, 0, 1, 16)),
    "type that is no type": array_pickle("f8", state=None),
    "object type": array_pickle("O8", state=(3, "|", None, None, None, -1, -1, 63)),
    "objects for bytes": array_pickle(content=[1, 2]),
    "bytes of a huge length": b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"x.",
    "array of a huge length": b"\x80\x05\x96" + struct.pack("<Q", 2**46) + b"x.",
    "text of a huge length": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x.",
    "number of a huge length": b"\x80\x04\x8b" + struct.pack("<i", 2**31 - 1) + b"x.",
    "huge memo": b"\x80\x04Nr" + struct.pack("<I", 2**32 - 1) + b".",
    "long decimal": b"I" + b"9" * 10**6 + b"\n.",
    "nested key": b"\x80\x04}" + b")" + b"\x85" * 2 * 10**4 + b"Ns.",
    "nested call": b"\x80\x04" + short("numpy") + short("dtype") + b"\x93" + b")R" * 2 * 10**4 + b".",
    "nested list": b"\x80\x04" + b"]" * 2 * 10**4 + b"a" * (2 * 10**4 - 1) + b".",
    "list in itself": b"\x80\x04]\x94h\x00a.",
}


@pytest.mark.parametrize("content", CLAIMS.values(), ids=CLAIMS)
def test_false_claims_are_refused_without_taking_memory(tmp_path, content):
    import tracemalloc

    (tmp_path / "1").write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(FileError) as caught:
            apex_pickle.read(tmp_path / "1")
        assert tracemalloc.get_traced_memory()[1] < 300 * len(content) + 2**20
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 1000


def test_keys_that_could_be_nested_are_refused(tmp_path):
    """Hashing a key nested deeply enough would end the whole interpreter."""
    (tmp_path / "1").write_bytes(pickle.dumps([{(): 1}]))
    with pytest.raises(FileError, match="neither texts nor numbers: refused"):
        apex_pickle.read(tmp_path / "1")


def test_the_same_rollout_over_and_over_is_refused(tmp_path):
    (tmp_path / "1").write_bytes(pickle.dumps([transitions()] * 1000))
    with pytest.raises(FileError, match="over and over"):
        apex_pickle.read(tmp_path / "1")


GOOD = pickle.dumps([transitions(2)], 4)


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_whatever_is_changed_gives_sequences_or_one_line(tmp_path_factory, changes):
    content = bytearray(GOOD)
    for at, value in changes:
        content[at] = value
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(content)
    try:
        assert isinstance(apex_pickle.read(path, length=2), Sequences)
    except FileError as error:
        assert "\n" not in str(error)  # noqa: PT017
