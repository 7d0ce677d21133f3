"""A run spread over a real Ray cluster of two nodes, both on this machine, one of which dies."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from saccade import sequences
from saccade.checks import FileError, InputError, SaccadeError
from saccade.models import preset
from saccade.training import cluster, members, recipe, run

pytestmark = [
    pytest.mark.xdist_group("cluster"),
    # Ray's processes are started by fork and exec, which harms no thread of JAX.
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
]

UPDATES = 1200
SMALL = dict.fromkeys(("memory_hidden", "forward_shared", "inverse_shared", "initial_hidden"), (8,))
ENVIRONMENT = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # most of the time would go into compiling
    "JAX_PLATFORMS": "cpu",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}
HERE = """
import sys
from saccade import machine
from saccade.training import run
machine.prepare(1)
sys.exit(not run.resume(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def environment(compiled):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**ENVIRONMENT, **compiled}.items():
            patch.setenv(name.upper(), str(value))
        yield


@pytest.fixture(scope="module")
def nodes(environment):
    """Two nodes with a CPU each, so that of two groups each has one."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 << 20}
    place = tempfile.mkdtemp(prefix="ray")  # for sockets, whose paths must be short
    found = Cluster(shutdown_at_exit=False)
    try:
        found.add_node(**small, include_dashboard=False, temp_dir=place)
        found.add_node(**small)
        yield found
    finally:
        found.shutdown()
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    for name, count in (("train", 72), ("validation", 24)):
        observation = random.normal(size=(count, 9, 3)).cumsum(1)
        made = sequences.Sequences(observation=observation, action=random.normal(size=(count, 8, 2)))
        sequences.save(made, place / f"{name}.safetensors")
    return place


def begin(folder: Path, data: Path) -> Path:
    """A run of two groups in which nothing is trained yet."""
    small = recipe("fast", updates=UPDATES, evaluate_every=100, evaluate_on=24, batch=24, warmup=10)
    settings = preset(observation=3, action=2, latent=4, skip_shared=(16,), **SMALL)
    wanted = members(small, settings=settings, sparsities=(0.1, 1.0), seeds=(1, 2))
    assert not run.train(folder, wanted, data, per_group=2, engine=lambda *_: False)
    return folder


@pytest.fixture(scope="module")
def here(environment, data, tmp_path_factory) -> Path:
    """The same run, trained by the local engine without a break."""
    folder = begin(tmp_path_factory.mktemp("here") / "run", data)
    subprocess.run([sys.executable, "-c", HERE, folder], check=True, timeout=120)
    return folder


def numbers(folder: Path) -> dict[str, bytes]:
    """Every parameter of every milestone."""
    return {
        f"{path.parent.name} {path.stem} {name}": array.tobytes()
        for path in sorted(folder.glob("models/*/*.safetensors"))
        for name, array in safetensors.numpy.load_file(path).items()
    }


def assert_same(folder: Path, here: Path):
    wanted = numbers(here)
    assert sum(f" {UPDATES:09d} " in name for name in wanted) > 4
    assert numbers(folder) == wanted
    assert run.metrics(folder) == run.metrics(here)


def children(pid: int) -> list[tuple[int, str]]:
    """The processes that a process started, with their titles."""
    numbers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [(int(number), Path(f"/proc/{number}/cmdline").read_text().replace("\0", " ")) for number in numbers]


def raylet(node) -> int:
    return node.all_processes["raylet"][0].process.pid


def pressing_ctrl_c():
    """Presses Ctrl-C once, at the first progress: pressed again, it would not wait for anything to be saved."""
    pressed = []

    def press(_):
        if not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)

    return press


def test_models_are_those_of_the_local_engine_to_the_last_bit(nodes, data, here, tmp_path):
    told = []
    folder = begin(tmp_path / "run", data)
    assert run.resume(folder, engine=cluster.engine(nodes.address), tell=told.append)
    assert_same(folder, here)
    for group in ("group 1", "group 2"):
        updates = [progress.update for progress in told if progress.group.startswith(group)]
        assert updates == list(range(100, UPDATES + 1, 100))
    assert run.resume(folder, engine=cluster.engine(nodes.address))  # nothing is left to do


def test_ctrl_c_stops_all_nodes_and_the_run_goes_on_even_from_a_damaged_checkpoint(nodes, data, here, tmp_path):
    folder = begin(tmp_path / "run", data)
    engine = cluster.engine(nodes.address)
    assert not run.resume(folder, engine=engine, tell=pressing_ctrl_c())
    reached = [row["update"] for row in run.status(folder)]
    assert 0 < max(reached) < UPDATES
    newest = max(folder.glob("group-*/checkpoint-*"), key=lambda path: path.name)
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=rf"^group \d: {newest} .* kept as {newest.stem}.damaged"):
        assert run.resume(folder, engine=engine)
    assert_same(folder, here)


def test_ctrl_c_does_not_wait_for_groups_that_wait_for_cpus(nodes, data, tmp_path):
    small = recipe("fast", updates=UPDATES, evaluate_every=100, evaluate_on=24, batch=24)
    settings = preset(observation=3, action=2, latent=4, skip_shared=(16,), **SMALL)
    folder = tmp_path / "run"
    wanted = members(small, settings=settings, seeds=(1, 2, 3, 4))
    engine = cluster.engine(nodes.address)
    assert not run.train(folder, wanted, data, per_group=1, engine=engine, tell=pressing_ctrl_c())
    assert "not begun" in {row["state"] for row in run.status(folder)}


def test_what_is_wrong_on_a_node_is_said_in_the_same_line_as_here(nodes, data, tmp_path):
    folder = begin(tmp_path / "run", data)
    moved = tmp_path / "moved.safetensors"
    known = (folder / "run.json").read_text()
    (folder / "run.json").write_text(known.replace(str(data), str(moved)))
    with pytest.raises(FileError, match=r"does not see .*moved.safetensors"):
        run.resume(folder, engine=cluster.engine(nodes.address))
    (folder / "run.json").write_text(known.replace('"data_checksum": "', '"data_checksum": "other'))
    with pytest.raises(FileError, match=rf"^{data} has changed since {folder} was begun"):
        run.resume(folder, engine=cluster.engine(nodes.address))
    with pytest.raises(InputError, match="the cluster's largest node has 1 CPU"):
        run.resume(folder, engine=cluster.engine(nodes.address, cpus_per_group=2))


def test_a_group_that_is_lost_too_often_is_given_up_and_the_others_are_saved(nodes, data, tmp_path):
    folder = begin(tmp_path / "run", data)

    def kill(_):
        for number, title in children(raylet(nodes.head_node)):
            if title.startswith("ray::_work"):
                os.kill(number, signal.SIGKILL)

    with pytest.raises(SaccadeError, match=r"^group \d was lost 1 times without getting on: [^\n]*--resume"):
        run.resume(folder, engine=cluster.engine(nodes.address, retries=0), tell=kill)
    assert {row["state"] for row in run.status(folder)} == {"stopped"}


def test_a_run_goes_on_after_a_node_died_and_gives_the_same_models(nodes, data, here, tmp_path):
    folder = begin(tmp_path / "run", data)
    killed = []

    def kill(_):
        reached = [row["update"] for row in run.status(folder)]
        if not killed and min(reached) > 0:
            victim = next(node for node in nodes.worker_nodes)
            workers = [number for number, title in children(raylet(victim)) if title.startswith("ray::_work")]
            nodes.remove_node(victim, allow_graceful=False)
            killed.append((workers, reached))

    with pytest.warns(UserWarning, match=r"^group \d was lost: it goes on from update \d"):
        assert run.resume(folder, engine=cluster.engine(nodes.address), tell=kill)
    [(workers, reached)] = killed
    assert len(workers) == 1 and max(reached) < UPDATES
    assert_same(folder, here)


# --- Without a cluster ---------------------------------------------------------------------------------------------


def test_ray_is_needed_and_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r'needs Ray: pip install "saccade\[cluster\]"'):
        cluster.engine()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"address": "ray://head:10001"}, "wanted auto or the head's host:port"),
        ({"address": "127.0.0.1:1"}, "no Ray cluster answers at 127.0.0.1:1 .*ray start --head"),
        ({"cpus_per_group": 0}, "wanted 1 CPU or more"),
        ({"retries": -1}, "wanted 0 or more"),
    ],
)
def test_wrong_settings_are_one_line(wrong, message, tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(InputError, match=message):
        cluster.engine(**wrong)(tmp_path, [0])
