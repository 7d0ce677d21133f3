"""The five golden files: numbers that the authors' own code gave, outputs and gradients, in both precisions.

A file's gradients stand in it under the names of the parameters, so they are read as if they were a model.
"""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saccade.memory import unroll
from saccade.models import forward_inverse_loss, measure, skip_loss
from saccade.networks import Gaussian, beta_nll
from saccade.saving import load_original

GOLDEN = Path(__file__).parent / "golden"
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}
precision = pytest.mark.parametrize("precision", TOLERANCE)
both_memories = pytest.mark.parametrize("memory", ["gatel0rd", "gru"])


class Golden:
    """One golden file in one precision, and the largest relative error met in comparing with it."""

    def __init__(self, name, precision, folder):
        self.path, self.precision, self.folder, self.worst = GOLDEN / f"{name}.npz", precision, folder, 0.0
        with np.load(self.path) as file:
            self.arrays = dict(file)

    def __getitem__(self, name):
        return jnp.asarray(self.arrays[name], self.precision)

    def model(self, part="param"):
        path = self.folder / f"{part}.npz"
        np.savez(
            path, **{name.replace(f"{part}.", "param."): a for name, a in self.arrays.items() if name.startswith(part)}
        )
        return jax.tree.map(lambda array: array.astype(self.precision), load_original(path))

    def agrees(self, name, given):
        assert given.dtype == self.precision
        self.close(given, self.arrays[name], name)

    def gradients_agree(self, given):
        wanted = self.model("grad")
        names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(wanted)[0]]
        for name, a, b in zip(names, jax.tree.leaves(given), jax.tree.leaves(wanted), strict=True):
            assert a.dtype == self.precision
            self.close(a, b, name)

    def close(self, given, wanted, name):
        given, wanted = np.asarray(given, np.float64), np.asarray(wanted, np.float64)
        assert given.shape == wanted.shape, name
        error = np.abs(given - wanted).max() / np.abs(wanted).max()
        self.worst = max(self.worst, error)
        assert error <= TOLERANCE[self.precision], f"{name}: relative error {error:.2e}"

    def report(self, record):
        record(f"{self.path.stem} {self.precision}", f"{self.worst:.1e}")


@pytest.fixture
def golden(precision, tmp_path, record_property, request):
    files = []

    def read(name):
        files.append(Golden(name, precision, tmp_path))
        return files[-1]

    yield read
    for file in files:
        file.report(record_property)
        print(f"{file.path.stem} {precision}: largest relative error {file.worst:.1e}")


@precision
def test_cell(golden):
    file = golden("cell")

    def scalar(cell, x, h_prev):
        out = unroll(cell, x[None], h_prev)
        y, h, gate = out.output[0], out.latent[0], out.gate[0]
        # theta counts open gates but its gradient goes straight through to the gate values.
        theta = gate + jax.lax.stop_gradient((gate > 0).astype(gate.dtype) - gate)
        return (file["weight_y"] * y).sum() + (file["weight_h"] * h).sum() + theta.mean(), (y, h, theta)

    cell = file.model()
    value, (y, h, theta) = scalar(cell, file["x"], file["h_prev"])
    for name, given in {"scalar": value, "y": y, "h": h, "theta": theta}.items():
        file.agrees(name, given)
    of_cell, of_x, of_h_prev = jax.jit(jax.grad(lambda *a: scalar(*a)[0], (0, 1, 2)))(cell, file["x"], file["h_prev"])
    file.gradients_agree(of_cell)
    file.agrees("grad_x", of_x)
    file.agrees("grad_h_prev", of_h_prev)


@precision
@both_memories
def test_forward_inverse_observing(golden, memory):
    file = golden(f"forward_inverse_{memory}")
    sparsity = 1.0 if memory == "gatel0rd" else 0.0

    def loss(model):
        predicted = model.observe(file["obs"], file["action"])
        return forward_inverse_loss(predicted, file["next_obs"], file["action"], sparsity=sparsity), predicted

    model = file.model()
    (value, predicted), gradients = eqx.filter_jit(eqx.filter_value_and_grad(loss, has_aux=True))(model)
    file.agrees("loss", value)
    file.gradients_agree(gradients)
    check_prediction(file, "", predicted, action_variance=True)
    read = unroll(model.memory, jnp.concatenate([file["action"], file["obs"]], -1), predicted.initial).output
    file.agrees("features", read)
    measures = measure(predicted, file["next_obs"], file["action"])
    file.agrees("obs_nll", measures["observation_nll"])
    file.agrees("action_nll", measures["action_nll"])


@precision
@both_memories
def test_forward_inverse_closed_on_actions(golden, memory):
    file = golden(f"forward_inverse_{memory}")
    check_prediction(file, "closed_", file.model().observe_closed(file["obs"], file["action"][0]))


@precision
@both_memories
def test_forward_inverse_imagining(golden, memory):
    file = golden(f"forward_inverse_{memory}")
    check_prediction(file, "imagined_", file.model().imagine(file["obs"][0], file["action"]))


def check_prediction(file, prefix, predicted, action_variance=False):
    given = {
        "obs_mean": predicted.observation.mean,
        "obs_var": predicted.observation.variance,
        "h": predicted.latent,
        "theta": (predicted.gate > 0).astype(predicted.gate.dtype),
    }
    if prefix != "imagined_":
        given["action_mean"] = predicted.action.mean
    if action_variance:
        given["action_var"] = predicted.action.variance
    for name, array in given.items():
        file.agrees(prefix + name, array)


@precision
def test_beta_nll(golden):
    file = golden("beta_nll")
    for beta in (0.0, 0.5, 1.0):

        def mean_nll(mean, variance, beta=beta):
            return beta_nll(Gaussian(mean, variance), file["target"], beta).mean()

        file.agrees(f"nll_{beta}", beta_nll(Gaussian(file["mean"], file["var"]), file["target"], beta))
        of_mean, of_variance = jax.grad(mean_nll, (0, 1))(file["mean"], file["var"])
        file.agrees(f"grad_mean_{beta}", of_mean)
        file.agrees(f"grad_var_{beta}", of_variance)


@precision
def test_skip_network(golden):
    file = golden("skip_network")
    observation, latent = jnp.split(file["inputs"], [11], axis=-1)

    def loss(skip):
        predicted = skip(observation, latent)
        return skip_loss(predicted, file["target"]), predicted

    (value, predicted), gradients = eqx.filter_jit(eqx.filter_value_and_grad(loss, has_aux=True))(file.model())
    file.agrees("mean", predicted.mean)
    file.agrees("var", predicted.variance)
    file.agrees("loss", value)
    file.gradients_agree(gradients)
