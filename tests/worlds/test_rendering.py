"""Stored sequences become pictures in which hand, object, goal and table are seen where they are."""

import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from saccade.checks import FileError, InputError
from saccade.worlds import rendering
from saccade.worlds.rendering import Artist, frames, save

pytestmark = pytest.mark.xdist_group("rendering")
SMALL = (240, 180)


def _seen(hand=(1.34, 0.75, 0.6), thing=(1.3, 0.65, 0.425), goal=(1.35, 0.85, 0.55)):
    return np.array([*hand, *thing, 0.05, 0.05, *goal])


@pytest.fixture(scope="module")
def artist():
    try:
        made = Artist(SMALL)
    except FileError as error:
        pytest.skip(str(error))
    with made:
        yield made


def _red(picture):
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return (red > 110) & (green < 100) & (blue < 100)


def _green(picture):
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return (green > 60) & (green > 1.6 * red) & (green > 1.3 * blue)


def _middle(mask):
    """Column and row of a mask's middle."""
    rows, columns = np.nonzero(mask)
    return np.array([columns.mean(), rows.mean()])


def test_object_and_goal_are_seen(artist):
    picture = artist.draw(_seen(), 0.4)
    assert picture.shape == (180, 240, 3)
    assert 15 < _green(picture).sum() < 1000
    assert 15 < _red(picture).sum() < 1000


def test_object_and_goal_are_seen_where_they_are(artist):
    usual = artist.draw(_seen(), 0.4)
    higher = artist.draw(_seen(goal=(1.35, 0.85, 0.65)), 0.4)
    assert _middle(_red(higher))[1] < _middle(_red(usual))[1] - 5
    elsewhere = artist.draw(_seen(thing=(1.3, 0.85, 0.425), goal=(1.35, 0.6, 0.55)), 0.4)
    assert np.abs(_middle(_green(elsewhere)) - _middle(_green(usual))).max() > 10


def test_goal_is_seen_within_the_object_and_the_object_around_it(artist):
    both = artist.draw(_seen(thing=(1.35, 0.85, 0.55)), 0.4)
    assert _red(both).sum() > 3
    assert _green(both).sum() > 10


def test_the_hand_is_where_the_observation_says(artist):
    for hand in ((1.34, 0.75, 0.6), (1.2, 0.6, 0.45), (1.45, 0.85, 0.7), (1.34, 0.75, 0.425)):
        artist.draw(_seen(hand=hand), 0.4)
        np.testing.assert_allclose(artist._data.site("robot0:grip").xpos, hand, atol=2e-3)
        down = artist._data.body("robot0:gripper_link").xmat.reshape(3, 3)[:, 0]
        assert down[2] < -0.99


def test_the_table_is_as_high_as_it_is_said_to_be(artist):
    """The camera rises with the table: its top stays in place in the picture, and the goal in the air sinks."""
    pictures = [artist.draw(_seen(goal=(1.35, 0.85, 0.6)), height).astype(int) for height in (0.3, 0.5)]
    tops = [(picture[..., 0] - picture[..., 2] > 20) & (picture[..., 0] > 200) for picture in pictures]
    assert min(top.sum() for top in tops) > 500
    np.testing.assert_allclose(_middle(tops[0]), _middle(tops[1]), atol=2)
    low, high = (_middle(_red(picture)) for picture in pictures)
    assert low[1] < high[1] - 5


def test_every_observation_becomes_a_picture(artist):
    drawn = list(frames(np.array([_seen()] * 3), size=SMALL))
    assert len(drawn) == 3
    expected = artist.draw(_seen(), 0.425 - 0.0249)  # the table under the resting object; the arm a millimetre off
    assert np.abs(drawn[2].astype(int) - expected).mean() < 1


def test_png_shows_moments_in_rows(artist, tmp_path):
    save(tmp_path / "a.png", np.array([_seen()] * 9), 0.4, size=SMALL, pictures=5, captions=["reach"] * 8)
    with Image.open(tmp_path / "a.png") as image:
        assert image.format == "PNG"
        assert image.size == (3 * 240, 2 * 180)


def test_gif_moves(artist, tmp_path):
    observation = np.array([_seen(hand=(1.34, 0.75, 0.6 + 0.02 * step)) for step in range(4)])
    save(tmp_path / "a.gif", observation, 0.4, size=SMALL, frames_per_second=20)
    with Image.open(tmp_path / "a.gif") as image:
        assert (image.format, image.n_frames, image.info["duration"]) == ("GIF", 4, 50)
        first = np.asarray(image.convert("RGB"))
        image.seek(3)
        assert np.abs(first.astype(int) - np.asarray(image.convert("RGB"))).max() > 50


def test_mp4_holds_every_step(artist, tmp_path):
    film = pytest.importorskip("imageio_ffmpeg")
    save(tmp_path / "a.mp4", np.array([_seen()] * 5), 0.4, size=SMALL, frames_per_second=5)
    read = [film.get_ffmpeg_exe(), "-i", str(tmp_path / "a.mp4"), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    pixels = subprocess.run(read, capture_output=True, check=True).stdout
    shown = np.frombuffer(pixels, np.uint8).reshape(5, SMALL[1], SMALL[0], 3)
    assert _red(shown[2]).sum() > 15
    assert os.listdir(tmp_path) == ["a.mp4"]


@pytest.mark.parametrize("name", ["a.png", "a.gif", "a.mp4"])
def test_a_disk_that_is_full_leaves_nothing(artist, tmp_path, name):
    """Stands in for a full disk: no file may grow beyond 2 kB, in this process and in those it starts."""
    pytest.importorskip("imageio_ffmpeg")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, limits[1]))
        with pytest.raises(FileError, match=f"{name} cannot be written"):
            save(tmp_path / name, np.array([_seen()] * 9), 0.4, size=SMALL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert os.listdir(tmp_path) == []


def test_mp4_without_its_package_names_the_extra(artist, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(FileError, match=r"saccade\[video\]"):
        save(tmp_path / "a.mp4", np.array([_seen()] * 2), 0.4, size=SMALL)
    assert os.listdir(tmp_path) == []


def test_without_off_screen_graphics_one_line_names_the_package(monkeypatch):
    monkeypatch.setattr(rendering.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1))
    with pytest.raises(FileError, match="install Debian's libosmesa6") as raised:
        Artist(SMALL)
    assert "\n" not in str(raised.value)


def test_a_canvas_without_a_screen_is_noticed(monkeypatch):
    for screen in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(screen, raising=False)
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    with pytest.raises(FileError, match=r"no off-screen graphics work here \(glfw\)"):
        Artist(SMALL)


def test_an_existing_file_is_kept(artist, tmp_path):
    (tmp_path / "a.png").write_text("mine")
    with pytest.raises(FileError, match="exists already"):
        save(tmp_path / "a.png", np.array([_seen()] * 2), 0.4, size=SMALL)
    assert (tmp_path / "a.png").read_text() == "mine"
    save(tmp_path / "a.png", np.array([_seen()] * 2), 0.4, size=SMALL, overwrite=True)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_environment_renders_its_state(artist):
    import gymnasium

    from saccade.worlds import ENVIRONMENT

    env = gymnasium.make(ENVIRONMENT, render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (360, 480, 3)
    assert _red(picture).sum() > 50
    assert _green(picture).sum() > 50
    env.close()


@pytest.mark.parametrize(
    ("observation", "options", "says"),
    [
        (np.zeros((3, 10)), {}, r"shape \(3, 10\): wanted one sequence"),
        (np.zeros((0, 11)), {}, "wanted one sequence"),
        (np.full((3, 11), np.nan), {}, "NaN or infinite"),
        (np.ones((3, 11)), {"captions": ["a"]}, "1 captions for 3"),
        (np.ones((3, 11)), {"pictures": 0}, "pictures is 0"),
    ],
)
def test_wrong_arguments_say_what_was_wanted(tmp_path, observation, options, says):
    with pytest.raises(InputError, match=says):
        save(tmp_path / "a.png", observation, 0.4, **options)
    with pytest.raises(InputError, match=r"wanted one of \.png, \.gif, \.mp4"):
        save(tmp_path / "a.bmp", observation, 0.4)
    assert os.listdir(tmp_path) == []
