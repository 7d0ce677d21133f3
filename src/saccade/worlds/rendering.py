"""Pictures and films of Fetch sequences, from the stored observations alone, on machines with or without a screen."""

# pyright: reportAttributeAccessIssue=false
# MuJoCo comes without types.

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from saccade.checks import FileError, InputError
from saccade.files import replacing
from saccade.worlds.fetch import DOWN, FINGERS, GOAL, HAND, OBJECT, OBSERVATION, load_model

SIZE = (480, 360)
FORMATS = (".png", ".gif", ".mp4")
_ACROSS = 3  # pictures in one row of a .png
RESTING = 0.0249  # metres from the table to the middle of an object resting on it
COLOURS = {"object": (0.20, 0.62, 0.28, 1), "goal": (0.90, 0.12, 0.12, 0.6), "table": (0.72, 0.68, 0.62, 1)}
GOAL_RADIUS = 0.03  # metres: a little more than the object, so that both are seen when one is in the other
ARM = (
    *("shoulder_pan", "shoulder_lift", "upperarm_roll", "elbow_flex"),
    *("forearm_roll", "wrist_flex", "wrist_roll", "gripper"),
)
ARM_OPACITY = 0.45  # goals are often behind the arm
BACKGROUND = 235

_NOTHING_TO_DRAW_WITH = (
    "no off-screen graphics work here ({tried}): install Debian's libosmesa6 (software) or libegl1 with a driver "
    "(graphics card), or set MUJOCO_GL to one that works"
)


class Artist:
    """Draws Fetch scenes: the robot posed so that its hand is where the observation says, object, goal and table."""

    def __init__(self, size: tuple[int, int] = SIZE):
        width, height = size
        if min(size) < 16 or max(size) > 4096:
            raise InputError(f"size is {width} x {height}: wanted 16 to 4096 pixels each way")
        self._canvas = _find_canvas()(width, height)
        self._canvas.make_current()
        self.model = model = _stage(load_model(), size)
        self._data = mujoco.MjData(model)
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._scene = mujoco.MjvScene(model, maxgeom=1000)
        self._option = mujoco.MjvOption()
        self._frame = mujoco.MjrRect(0, 0, width, height)
        self._pixels = np.empty((height, width, 3), np.uint8)
        self._posed = False

    def __enter__(self) -> "Artist":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives back the graphics memory."""
        self._context.free()
        self._canvas.free()

    def draw(self, observation: np.ndarray, table_height: float) -> np.ndarray:
        """A picture (height, width, 3) of one observation (11)."""
        model, data = self.model, self._data
        self._pose(observation[HAND])
        _set_table(model, table_height)
        model.site("target0").pos[:] = observation[GOAL] - model.body("floor0").pos
        data.joint("object0:joint").qpos[:] = [*observation[OBJECT], 1, 0, 0, 0]
        for side, opening in zip("rl", observation[FINGERS], strict=True):
            data.joint(f"robot0:{side}_gripper_finger_joint").qpos[0] = opening
        mujoco.mj_forward(model, data)
        self._canvas.make_current()
        mujoco.mjv_updateScene(
            model, data, self._option, None, _camera(table_height), mujoco.mjtCatBit.mjCAT_ALL.value, self._scene
        )
        mujoco.mjr_render(self._frame, self._scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._frame, self._context)
        return self._pixels[::-1].copy()

    def _pose(self, hand: np.ndarray) -> None:
        """Lets the weld pull the arm until the hand is there; the last pose is the start, so that films flow."""
        model, data = self.model, self._data
        grip, wrist = data.site("robot0:grip").xpos, data.body("robot0:gripper_link")
        if not self._posed:
            mujoco.mj_resetData(model, data)
            for name, value in (("slide0", 0.405), ("slide1", 0.48), ("slide2", 0.0)):
                data.joint(f"robot0:{name}").qpos[0] = value
            mujoco.mj_forward(model, data)
            data.mocap_pos[0] = wrist.xpos
            self._posed = True
        data.mocap_quat[0] = DOWN
        for _ in range(60):
            data.mocap_pos[0] += 0.5 * np.clip(hand - grip, -0.1, 0.1)  # summed up, since the weld gives way a little
            mujoco.mj_step(model, data, nstep=20)
            if np.abs(hand - grip).max() < 1e-3 and wrist.xmat[6] < -0.998:  # its first axis points down
                break
        data.qvel[:] = 0


def frames(
    observation: np.ndarray, table_height: float | None = None, *, size: tuple[int, int] = SIZE
) -> Iterator[np.ndarray]:
    """One picture (height, width, 3) per observation of a sequence (time, 11).

    Where the table's height is not known it is taken from the object, which rests on the table at the beginning.
    """
    observation = _checked(observation)
    if table_height is None:
        table_height = float(observation[:, OBJECT][:, 2].min()) - RESTING
    with Artist(size) as artist:
        for seen in observation:
            yield artist.draw(seen, table_height)


def save(
    path: str | os.PathLike,
    observation: np.ndarray,
    table_height: float | None = None,
    *,
    captions: Sequence[str] = (),
    size: tuple[int, int] = SIZE,
    pictures: int = 6,
    frames_per_second: int = 10,  # 25 would be real time
    overwrite: bool = False,
) -> None:
    """Writes a sequence (time, 11) as the path's ending says: .png (`pictures` moments, three in a row), .gif or .mp4.

    `captions`, one per observation or one fewer, such as the names of the events, are written into the pictures.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path.name} ends in {path.suffix or 'nothing'}: wanted one of {', '.join(FORMATS)}")
    observation = _checked(observation)
    if captions and not len(observation) - 1 <= len(captions) <= len(observation):
        raise InputError(f"{len(captions)} captions for {len(observation)} observations: wanted one each, or one fewer")
    if table_height is None:
        table_height = float(observation[:, OBJECT][:, 2].min()) - RESTING
    write: Callable[[Path, Iterable[np.ndarray], int], None]
    shown = range(len(observation))
    if path.suffix.lower() == ".png":
        if pictures < 1:
            raise InputError(f"pictures is {pictures}: wanted at least 1")
        shown = np.unique(np.linspace(0, len(observation) - 1, pictures).round().astype(int)).tolist()
        write = _write_png
    else:
        write = _write_gif if path.suffix.lower() == ".gif" else _write_mp4
        if not 1 <= frames_per_second <= 100:
            raise InputError(f"frames_per_second is {frames_per_second}: wanted 1 to 100")
    drawn = frames(observation[list(shown)], table_height, size=size)
    labels = (f"{step}  {captions[step]}" if step < len(captions) else str(step) for step in shown)
    labelled = (_caption(picture, label) for picture, label in zip(drawn, labels, strict=True))
    with replacing(path, overwrite=overwrite) as temporary:
        write(temporary, labelled, frames_per_second)


def _write_png(path: Path, pictures: Iterable[np.ndarray], _: int) -> None:
    from PIL import Image

    drawn = list(pictures)
    across = min(len(drawn), _ACROSS)
    drawn += [np.full_like(drawn[0], 255)] * (-len(drawn) % across)
    rows = [np.concatenate(drawn[begin : begin + across], axis=1) for begin in range(0, len(drawn), across)]
    Image.fromarray(np.concatenate(rows)).save(path, "PNG")


def _write_gif(path: Path, pictures: Iterable[np.ndarray], frames_per_second: int) -> None:
    from PIL import Image

    first, *rest = (Image.fromarray(picture) for picture in pictures)
    first.save(path, "GIF", save_all=True, append_images=rest, duration=round(1000 / frames_per_second), loop=0)


def _write_mp4(path: Path, pictures: Iterable[np.ndarray], frames_per_second: int) -> None:
    try:
        import imageio_ffmpeg
    except ImportError:
        raise FileError("films in .mp4 need imageio-ffmpeg: install saccade[video], or write a .gif") from None
    path.touch()  # where this fails it says why; ffmpeg would not
    film = list(pictures)
    height, width = film[0].shape[:2]
    command = [
        *(imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error"),
        *("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(frames_per_second), "-i", "-"),
        *("-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"),  # the most widely understood kind of film has even sides
        *("-c:v", "libx264", "-pix_fmt", "yuv420p", "-f", "mp4", str(path)),
    ]
    done = subprocess.run(command, input=b"".join(picture.tobytes() for picture in film), capture_output=True)
    if done.returncode or done.stderr:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(f"ffmpeg says: {said or done.returncode}")


def _caption(picture: np.ndarray, text: str) -> np.ndarray:
    from PIL import Image, ImageDraw

    image = Image.fromarray(picture)
    ImageDraw.Draw(image).text((10, 8), text, fill=(30, 30, 30), font_size=max(10, picture.shape[0] // 18))
    return np.asarray(image)


def _checked(observation: np.ndarray) -> np.ndarray:
    observation = np.asarray(observation, float)
    if observation.ndim != 2 or observation.shape[1] != len(OBSERVATION) or not len(observation):
        raise InputError(f"observation has shape {observation.shape}: wanted one sequence (time, {len(OBSERVATION)})")
    if not np.isfinite(observation).all():
        raise InputError("observation holds NaN or infinite values: leave out the steps that do not exist")
    return observation


def _stage(model: mujoco.MjModel, size: tuple[int, int]) -> mujoco.MjModel:
    """The robot's model as a puppet on a stage: nothing falls or collides, helpers are hidden, things have colours."""
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT.value | mujoco.mjtDisableBit.mjDSBL_GRAVITY.value
    model.vis.global_.offwidth, model.vis.global_.offheight = size
    model.vis.quality.offsamples = 4
    for name, body in (("object", "object0"), ("table", "table0")):
        geom = model.body(body).geomadr[0]
        model.geom_matid[geom] = -1
        model.geom_rgba[geom] = COLOURS[name]
    for name in ARM:
        model.geom_rgba[model.body(f"robot0:{name}_link").geomadr[0], 3] = ARM_OPACITY
    helper = model.body("robot0:mocap")
    model.geom_rgba[helper.geomadr[0] : helper.geomadr[0] + helper.geomnum[0], 3] = 0
    model.site("object0").rgba[3] = 0
    goal = model.site("target0")
    goal.rgba[:], goal.size[:] = COLOURS["goal"], GOAL_RADIUS
    for texture in np.flatnonzero(model.tex_type == mujoco.mjtTexture.mjTEXTURE_SKYBOX.value):
        begin = model.tex_adr[texture]
        model.tex_data[begin : begin + model.tex_width[texture] * model.tex_height[texture] * 3] = BACKGROUND
    return model


def _set_table(model: mujoco.MjModel, height: float) -> None:
    """Stands a table of this height on the floor."""
    table = model.body("table0")
    model.geom_size[table.geomadr[0], 2] = height / 2
    model.body_pos[table.id, 2] = height / 2


def _camera(table_height: float) -> mujoco.MjvCamera:
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE.value
    camera.lookat[:] = [1.25, 0.75, table_height + 0.27]
    camera.distance, camera.azimuth, camera.elevation = 1.65, 145, -18
    return camera


def _find_canvas() -> Any:
    """The class of off-screen canvas that works on this machine, found by trying each in a process of its own.

    Trying here would not do: the graphics library keeps to the first choice, even to one that failed. Nor would a
    canvas alone: GLFW without a screen hands one out, with a mere warning, that nothing can be drawn on.
    """
    asked = os.environ.get("MUJOCO_GL", "").lower()
    for name in (asked,) if asked in ("egl", "osmesa", "glfw") else ("egl", "osmesa"):
        environment = {**os.environ, "MUJOCO_GL": name}
        environment.pop("PYOPENGL_PLATFORM", None)
        trial = (
            f"import mujoco, mujoco.{name}; canvas = mujoco.{name}.GLContext(16, 16); canvas.make_current(); "
            "mujoco.MjrContext(mujoco.MjModel.from_xml_string('<mujoco/>'), 100)"
        )
        if subprocess.run([sys.executable, "-c", trial], env=environment, capture_output=True).returncode == 0:
            os.environ.pop("PYOPENGL_PLATFORM", None)
            return importlib.import_module(f"mujoco.{name}").GLContext
    raise FileError(_NOTHING_TO_DRAW_WITH.format(tried=asked or "tried EGL and OSMesa"))
