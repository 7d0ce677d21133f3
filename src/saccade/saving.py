"""Models in files: safetensors with the settings inside, and a reader for the authors' own parameter names.

A file holds plain numbers and one JSON text; reading it executes nothing.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from saccade.checks import FileError, InputError
from saccade.files import provenance, replacing
from saccade.memory import GateL0RD
from saccade.models import EventModel, ForwardInverseModel, ModelSettings, SkipNetwork, preset

FORMAT_VERSION = 1
_KINDS = {kind.__name__: kind for kind in (EventModel, ForwardInverseModel, SkipNetwork)}

Model = EventModel | ForwardInverseModel | SkipNetwork
M = TypeVar("M", bound=eqx.Module)


def save(model: Model, path: str | os.PathLike, *, overwrite: bool = False, **notes: Any) -> None:
    """Writes one model with its settings, versions and `notes` (seed, recipe, ...; whatever JSON can hold)."""
    if type(model).__name__ not in _KINDS:
        raise InputError(f"cannot save a {type(model).__name__}: wanted one of {', '.join(_KINDS)}")
    tensors = named(model)
    _match(path, _skeleton(type(model), model.settings), tensors, InputError)
    about = {"kind": type(model).__name__, "settings": asdict(model.settings), "notes": notes}
    write(path, tensors, about, overwrite=overwrite)


def load(path: str | os.PathLike) -> Model:
    """The model that `save` wrote, checked to be whole and unchanged."""
    about, tensors = read(path)
    if about.get("kind") not in _KINDS:
        raise FileError(f"{path} holds a {about.get('kind')!r}: wanted one of {', '.join(_KINDS)}")
    skeleton = _skeleton(_KINDS[about["kind"]], _settings(path, about["settings"]))
    return _fill(path, skeleton, tensors)


def describe(path: str | os.PathLike) -> dict[str, Any]:
    """What a model file says of itself: kind, settings, notes, versions and the command that made it."""
    return read(path)[0]


def load_original(path: str | os.PathLike, *, context: int = 0) -> ForwardInverseModel | SkipNetwork | GateL0RD:
    """A model from the authors' parameter names (`.npz` or `.safetensors`), in the `original` preset.

    Names may be preceded by `param.`, and all others are then left alone. Sizes are read off the arrays; only a skip
    network must be told how many of its inputs are `context`.
    """
    arrays = _read_arrays(path)
    if any(name.startswith("param.") for name in arrays):
        arrays = {name[6:]: array for name, array in arrays.items() if name.startswith("param.")}
    tensors = {_our_name(path, name): array for name, array in arrays.items()}

    def shape(name):
        if name not in tensors or tensors[name].ndim != 2:
            raise FileError(f"{path} has no matrix for {name}: wanted all parameters of one of the authors' networks")
        return tensors[name].shape

    def widths(prefix):
        """The widths of an MLP's layers but the last."""
        layers = sum(name.startswith(f"{prefix}.layers.") and name.endswith("weight") for name in tensors)
        return tuple(shape(f"{prefix}.layers.{index}.weight")[0] for index in range(layers - 1))

    if "network.mean.layers.0.weight" in tensors:
        observation = shape("network.mean.layers.0.weight")[0]
        latent = shape("network.shared.layers.0.weight")[1] - observation - context
        shared = (*widths("network.shared"), shape("network.mean.layers.0.weight")[1])
        settings = _sized(path, observation=observation, latent=latent, context=context, skip_shared=shared)
        return _fill(path, _skeleton(SkipNetwork, settings), tensors)

    if "gate.layers.0.weight" in tensors:
        outputs, inputs = shape("output.gate.weight")
        hidden = widths("gate")
        latent = shape(f"gate.layers.{len(hidden)}.weight")[0]
        build = eqx.Partial(GateL0RD, inputs - latent, latent, outputs, hidden=hidden)
        return _fill(path, eqx.filter_eval_shape(build, key=jax.random.key(0)), tensors)

    initial, forward, inverse = widths("initial"), widths("forward.mean"), widths("inverse.mean")
    observation = shape(f"forward.mean.layers.{len(forward)}.weight")[0]
    action = shape(f"inverse.mean.layers.{len(inverse)}.weight")[0]
    latent = shape(f"initial.layers.{len(initial)}.weight")[0]
    is_gru = "memory.output.weight" in tensors
    if is_gru:
        context = shape("memory.from_input.weight")[1] - observation - action
    else:
        context = shape("memory.gate.layers.0.weight")[1] - observation - action - latent
    settings = _sized(
        path,
        observation=observation,
        action=action,
        context=context,
        latent=latent,
        memory="gru" if is_gru else "gatel0rd",
        features=shape("forward.mean.layers.0.weight")[1],
        initial_hidden=initial,
        forward_separate=forward,
        inverse_separate=inverse,
        **({} if is_gru else {"memory_hidden": widths("memory.gate")}),
    )
    return _fill(path, _skeleton(ForwardInverseModel, settings), tensors)


# --- Any numbers with a description --------------------------------------------------------------------------------


def write(
    path: str | os.PathLike, tensors: Mapping[str, np.ndarray], about: Mapping[str, Any], *, overwrite: bool = False
) -> None:
    """Writes arrays and a description to one safetensors file, with versions, command and a checksum of it all."""
    # The description as it will be read: a key that is a number becomes a text.
    whole = json.loads(json.dumps({**about, "version": FORMAT_VERSION, "made_by": provenance()}))
    whole["checksum"] = _checksum(whole, tensors)
    with replacing(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(safetensors.numpy.save(dict(tensors), {"saccade": json.dumps(whole)}))


def read(path: str | os.PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and the arrays that `write` wrote, checked to be whole and unchanged."""
    metadata, tensors = _read_safetensors(path)
    if "saccade" not in metadata:
        raise FileError(
            f"{path} was not written by saccade: wanted a file of `save`; for the authors' use `load_original`"
        )
    damaged = FileError(f"{path} was changed or damaged after it was saved: copy it again from where it came")
    try:
        about = json.loads(metadata["saccade"])
        version, checksum = about["version"], about["checksum"]
    except (ValueError, KeyError, TypeError) as error:
        raise damaged from error
    if version != FORMAT_VERSION:
        raise FileError(f"{path} has format version {version}: this saccade reads version {FORMAT_VERSION}; update it")
    if checksum != _checksum(about, tensors):
        raise damaged
    return about, tensors


# What the authors call the parts: MLPs, whose layers they number 0, 2, 4, ..., and single layers.
_ORIGINAL_MLPS = {
    "warm_up_network_list.0": "initial",
    "cells.0.r_function": "memory.recommend",
    "cells.0.input_gates": "memory.gate",
    "r_function": "recommend",
    "input_gates": "gate",
    "fc_FM": "forward.mean",
    "fc_FM_sigma": "forward.variance",
    "fc_IM": "inverse.mean",
    "fc_IM_sigma": "inverse.variance",
    "input_to_feature": "network.shared",
    "feature_to_output": "network.mean",
    "feature_to_sigma": "network.variance",
}
_ORIGINAL_LAYERS = {
    "cells.0.output_function.0": "memory.output.value",
    "cells.0.output_gates.0": "memory.output.gate",
    "output_function.0": "output.value",
    "output_gates.0": "output.gate",
    "cells.0.read_out": "memory.output",
    "fc_IM_gate1.0": "inverse_gated.value",
    "fc_IM_gate2.0": "inverse_gated.gate",
}
_ORIGINAL_GRU = {
    "cells.0.cell.weight_ih": "memory.from_input.weight",
    "cells.0.cell.bias_ih": "memory.from_input.bias",
    "cells.0.cell.weight_hh": "memory.from_latent.weight",
    "cells.0.cell.bias_hh": "memory.from_latent.bias",
}


def _our_name(path, name: str) -> str:
    part, _, kind = name.rpartition(".")
    if name in _ORIGINAL_GRU:
        return _ORIGINAL_GRU[name]
    if part in _ORIGINAL_LAYERS:
        return f"{_ORIGINAL_LAYERS[part]}.{kind}"
    layer = re.fullmatch(r"(.+)\.(\d*[02468])", part)
    if layer and layer[1] in _ORIGINAL_MLPS:
        return f"{_ORIGINAL_MLPS[layer[1]]}.layers.{int(layer[2]) // 2}.{kind}"
    raise FileError(
        f"{path} has a parameter {name!r}, which the authors' networks have not: wanted one of theirs, whole"
    )


def _sized(path, **sizes) -> ModelSettings:
    try:
        return preset("original", **sizes)
    except InputError as error:
        raise FileError(f"{path} has parameters whose sizes do not go together: {error}") from error


# --- Trees, names and checks ---------------------------------------------------------------------------------------


def named(tree) -> dict[str, Any]:
    """The arrays of a model by name, such as `forward_inverse.memory.gate.layers.0.weight`, as NumPy arrays.

    Shapes without numbers stay as they are.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf
        if isinstance(leaf, jax.ShapeDtypeStruct)
        else np.asarray(leaf)
        for path, leaf in leaves
    }


def _skeleton(kind: type[M], settings: ModelSettings) -> M:
    """A model of shapes without numbers."""
    return eqx.filter_eval_shape(kind, settings, key=jax.random.key(0))


def _match(path, skeleton, tensors: Mapping[str, np.ndarray], error: type[Exception]) -> None:
    """Raises unless the tensors are those of the skeleton, no more and no fewer, in shape and kind."""
    wanted = named(skeleton)
    for name in sorted(wanted.keys() ^ tensors.keys()):
        raise error(f"{path}: parameter {name} is {'missing' if name in wanted else 'too many'} for these settings")
    for name, array in tensors.items():
        if array.shape != wanted[name].shape:
            raise error(f"{path}: {name} has shape {array.shape}, wanted {wanted[name].shape} by the settings")
        # Models may be single or double; whatever else there is must be as it was.
        if array.dtype != wanted[name].dtype and array.dtype not in (np.float32, np.float64):
            raise error(f"{path}: {name} holds {array.dtype}, wanted float32 or float64")


def fill(path, skeleton: M, tensors: Mapping[str, np.ndarray]) -> M:
    """The tree of a skeleton's shapes with these arrays; raises a `FileError` naming the file if they do not fit."""
    _match(path, skeleton, tensors, FileError)
    return jax.tree.unflatten(jax.tree.structure(skeleton), [tensors[name] for name in named(skeleton)])


def _fill(path, skeleton: M, tensors: Mapping[str, np.ndarray]) -> M:
    filled = fill(path, skeleton, tensors)
    return jax.tree.map(lambda array: jnp.asarray(array, jax.dtypes.canonicalize_dtype(array.dtype)), filled)


def _checksum(about: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> str:
    text = json.dumps({key: about[key] for key in sorted(about) if key != "checksum"}, sort_keys=True)
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _read_safetensors(path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, TypeError) as error:
        raise FileError(
            f"{path} is no complete safetensors file ({error}): it may be cut short; copy it again"
        ) from error
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from error


def _settings(path, given: Mapping[str, Any]) -> ModelSettings:
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    known = {setting.name for setting in fields(ModelSettings)}
    if values.keys() != known:
        odd = ", ".join(sorted(values.keys() ^ known))
        raise FileError(f"{path} has settings unlike this version's ({odd}): load it with the saccade that saved it")
    return ModelSettings(**values)


def _read_arrays(path) -> dict[str, np.ndarray]:
    if Path(path).suffix == ".safetensors":
        return _read_safetensors(path)[1]
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # NumPy and zipfile raise half a dozen kinds for a broken archive
        raise FileError(f"{path} is no complete .npz file of plain arrays: wanted .npz or .safetensors") from error
