"""An engine that spreads the groups of a run over a Ray cluster.

Every group is one Ray task in a process of its own, which goes on from the run folder's newest checkpoint; the folder
lies where all nodes see it. Tasks and the process that asked for the run (the driver) meet at a `_Desk`, a small actor
beside the driver: progress goes one way, the wish to stop the other. Who loses a task asks for it again here and not
by Ray's own retries, so that only losses without progress are counted, and a person hears of each.
"""

import os
import platform
import secrets
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from saccade import machine
from saccade.checks import FileError, InputError, SaccadeError
from saccade.files import provenance
from saccade.training import run
from saccade.training.run import Engine, Progress, Tell

LOOK_EVERY = 0.5
"""Seconds between two looks at the desk."""
PATIENCE = 150.0
"""Seconds that a group may be held by a process that is gone: NFS servers keep the locks of a dead node for 90."""


def engine(address: str | None = None, *, cpus_per_group: int | None = None, retries: int = 5) -> Engine:
    """Trains groups side by side on a Ray cluster, on those CPUs which Ray gives to each.

    `address` is `auto` for the cluster that this machine is a node of, or its head's `host:port`. None: RAY_ADDRESS, or
    else a cluster of this machine alone, for as long as the run takes. A group takes `cpus_per_group` CPUs; None: one
    for each of its models, as far as a node has them. One that is lost with its node is started again elsewhere, unless
    it was lost `retries` times more without a new checkpoint.
    """
    ray = _ray()
    if cpus_per_group is not None and cpus_per_group < 1:
        raise InputError(f"cpus_per_group is {cpus_per_group}: wanted 1 CPU or more")
    if retries < 0:
        raise InputError(f"retries is {retries}: wanted 0 or more")

    def spread(folder: Path, groups: Sequence[int], tell: Tell | None = None) -> bool:
        if not groups:
            return True
        folder = Path(folder).absolute()  # with links as they are: other nodes may have others
        with _connected(ray, address or os.environ.get("RAY_ADDRESS")), run.interruptible() as interrupted:
            return _train(ray, folder, groups, tell, interrupted, cpus_per_group, retries)

    return spread


# --- The driver ----------------------------------------------------------------------------------------------------


def _train(
    ray: Any,
    folder: Path,
    groups: Sequence[int],
    tell: Tell | None,
    interrupted: Callable[[], bool],
    cpus_per_group: int | None,
    retries: int,
) -> bool:
    """Trains groups on the cluster that this process is connected to; whether all are finished."""
    largest = _largest_node(ray)
    if cpus_per_group is not None and cpus_per_group > largest:
        raise InputError(f"cpus_per_group is {cpus_per_group}: the cluster's largest node has {largest} CPUs")
    beside_us = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    desk = ray.remote(num_cpus=0, scheduling_strategy=beside_us)(_Desk).remote()
    models = [len(group) for group in run.about(folder)["groups"]]
    versions = _versions()

    def ask_for(number: int):
        cpus = cpus_per_group or max(1, min(models[number], _largest_node(ray)))
        options = {"num_cpus": cpus, "max_calls": 1, "max_retries": 0, "scheduling_strategy": "SPREAD"}
        return ray.remote(**options)(_work).remote(desk, folder, number, cpus, versions)

    at_work = {ask_for(number): number for number in groups}
    finished: list[bool] = []
    losses = {number: (0, run.updates_done(folder, number)) for number in groups}
    failure: Exception | None = None
    while at_work:
        done = ray.wait(list(at_work), timeout=LOOK_EVERY)[0]
        stopping = interrupted() or failure is not None
        told, begun = ray.get(desk.look.remote(stopping))
        for news in told:
            if isinstance(news, str):
                warnings.warn(news, stacklevel=4)
            elif tell:
                tell(news)
        for task in done:
            number = at_work.pop(task)
            try:
                finished.append(ray.get(task))
            except ray.exceptions.TaskCancelledError:
                finished.append(False)
            except ray.exceptions.RayTaskError as error:  # raised by the task itself
                failure = failure or (error.cause if isinstance(error.cause, SaccadeError) else error)
            except ray.exceptions.RayError as error:  # its process or node is gone
                reached = run.updates_done(folder, number)
                times = losses[number][0] + 1 if losses[number][1] == reached else 1
                losses[number] = times, reached
                ray.get(desk.lost.remote(number))
                if times > retries:
                    failure = failure or _given_up(folder, number, times, error)
                elif not stopping:
                    warnings.warn(f"group {number + 1} was lost: it goes on from update {reached or 0}", stacklevel=4)
                    at_work[ask_for(number)] = number
                else:
                    finished.append(False)
        if stopping:
            for task, number in at_work.items():
                if number not in begun:  # it waits for CPUs, perhaps for ever
                    ray.cancel(task)
    if failure:
        raise failure from None
    return all(finished)


def _given_up(folder: Path, number: int, times: int, error: Exception) -> SaccadeError:
    reason = " ".join(str(error).split())[:300]
    return SaccadeError(
        f"group {number + 1} was lost {times} times without getting on: {reason}; look at the nodes' memory and logs, "
        f"then go on by --resume {folder}"
    )


def _ray() -> Any:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise InputError('training on a cluster needs Ray: pip install "saccade[cluster]"') from error
    return ray


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """Connects this process to a cluster for as long as needed, unless it is already."""
    if ray.is_initialized():
        yield
        return
    _check_address(ray, address)
    # Ray would fill the screen with a dead node's logs; what matters is told at the desk.
    wanted: dict[str, Any] = {"address": address, "logging_level": "WARNING", "log_to_driver": False}
    if address:
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")  # or else it tries for a quarter of an hour
    else:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of a cluster that is started here nobody is told
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray would write one to the home directory,
        wanted["logging_level"] = "ERROR"  # and warn that it uses one
        wanted |= {"address": "local", "_node_ip_address": "127.0.0.1", "include_dashboard": False}
    try:
        with warnings.catch_warnings():  # Ray's processes are started by fork and exec, which harms no thread of JAX
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            ray.init(**wanted)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"address {address!r} cannot be connected to: {reason}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(ray: Any, address: str | None) -> None:
    """Raises for addresses on which Ray would wait for minutes, or ask for more to be installed."""
    if address in (None, "auto", "local"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InputError(
            f"address {address!r} is none: wanted auto or the head's host:port, from a machine that is itself a node"
        )
    host = host.strip("[]")
    if host in ("localhost", "127.0.0.1", "::1"):  # Ray, too, looks for it where other nodes would
        host = ray.util.get_node_ip_address()
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"no Ray cluster answers at {address} ({error}): start one by `ray start --head --port {port}` there"
        ) from error


def _largest_node(ray: Any) -> int:
    return max((int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]), default=0)


def _versions() -> dict[str, str]:
    """What numbers may depend on."""
    return {name: version for name, version in provenance().items() if name != "command"}


class _Desk:
    """What workers tell, and what they are told."""

    def __init__(self):
        self.told: list[Progress | str] = []
        self.begun: set[int] = set()
        self.stopping = False

    def begin(self, number: int) -> bool:
        """A worker begins with a group; whether it may."""
        self.begun.add(number)
        return not self.stopping

    def lost(self, number: int) -> None:
        self.begun.discard(number)

    def tell(self, news: Progress | str) -> None:
        """What a worker has to tell: how far it is, or a warning."""
        self.told.append(news)

    def is_stopping(self) -> bool:
        return self.stopping

    def look(self, stopping: bool) -> tuple[list[Progress | str], set[int]]:
        """What was told since the last look, and the groups that were begun."""
        self.stopping |= stopping
        told, self.told = self.told, []
        return told, self.begun


# --- A worker ------------------------------------------------------------------------------------------------------


def _work(desk: Any, folder: Path, number: int, cpus: int, versions: dict[str, str]) -> bool:
    """Trains one group in a process that has computed nothing yet; whether it got to the end."""
    ray = _ray()
    jax.config.update("jax_platforms", "cpu")  # it was given CPUs, whatever else the node has
    machine.prepare(cpus)
    with ThreadPoolExecutor(1) as messenger:

        def ask(method: Any, *given: Any) -> Any:
            """An answer of the desk: not waited for in the main thread, whose CPUs Ray would give to the next group."""
            return messenger.submit(lambda: ray.get(method.remote(*given))).result()

        def stopping() -> bool:
            return ask(desk.is_stopping)

        def warn(message: Warning | str, category: type[Warning], *_: Any) -> None:
            if category is UserWarning:  # others are for programmers
                ask(desk.tell, f"group {number + 1}: {message}")

        warnings.showwarning = warn
        if not ask(desk.begin, number):
            return False
        _check_node(folder, versions)
        place = run.group_folder(folder, number)
        give_up = time.monotonic() + PATIENCE
        while place.exists() and run.is_held(place) and time.monotonic() < give_up:
            if stopping():
                return False
            time.sleep(1)
        return run.train_group(folder, number, tell=lambda progress: ask(desk.tell, progress), interrupted=stopping)


def _check_node(folder: Path, versions: dict[str, str]) -> None:
    """Raises unless this node has the driver's software and sees its files."""
    name = platform.node()
    for package, version in _versions().items():
        if version != versions[package]:
            raise InputError(
                f"node {name} has {package} {version}: wanted {versions[package]}, as where the run was started, since "
                "numbers may depend on it"
            )
    if not (folder / "run.json").exists():
        raise FileError(f"node {name} does not see {folder}: wanted a run folder on storage that all nodes share")
    data = run.about(folder)["data"]
    if not Path(data).exists():
        raise FileError(f"node {name} does not see {data}: wanted data at the same place on all nodes")
