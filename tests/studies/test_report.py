"""The report is opened and used in a real browser, as a reader would."""

import os
import time

import numpy as np
import pytest
from chromium import Page, find
from PIL import Image

from saccade.checks import FileError, InputError
from saccade.studies import report
from saccade.studies.report import Figure

pytestmark = pytest.mark.xdist_group("browser")
STEPS = 6
HOSTILE = '</script><img src=x onerror="window.broken=1"><script>window.broken=1</script>\'&<!--'


def _claim(**changes):
    claim = {
        "id": "A1",
        "claim": "λ ≤ 1 predicts as well as the GRU",
        "check": "ratio ≤ 1.1",
        "value": 1.04231,
        "low": 0.98,
        "high": 1.1,
        "verdict": "holds",
        "seeds": [5, 6, 7, 9],
        "scale": "full",
        "recipe": "fast",
        "command": "saccade reproduce all --scale full",
        "date": "2026-05-14",
    }
    return {**claim, **changes}


CLAIMS = [
    _claim(),
    _claim(id="A3", verdict="does not hold", value="F1 0.91 (random 0.2)", low=None, high=None),
    _claim(id="B3", verdict="not yet run", value=None, low=None, high=None, seeds=[], command="", date=""),
]


def _episode(seed=0, **changes):
    """Hand, object and goal move about; gates open at steps 0 and 3."""
    random = np.random.default_rng(seed)
    gate = np.zeros((STEPS, 16))
    gate[[0, 3], 2] = 0.7
    mark = gate.any(1)
    return {
        "title": f"reach {seed}",
        "kind": "reach",
        "seed": seed,
        "table_height": 0.4,
        "observation_names": [f"{thing}_{axis}" for thing in ("hand", "object", "goal") for axis in "xyz"],
        "action_names": ["move_x", "gripper"],
        "entities": {"hand": [0, 1, 2], "object": [3, 4, 5], "goal": [6, 7, 8]},
        "observation": random.uniform(0.4, 1, (STEPS + 1, 9)),
        "action": random.uniform(-1, 1, (STEPS, 2)),
        "phase": ["reach"] * 3 + ["grasp"] * 3,
        "gate": gate,
        "strength": gate.sum(1),
        "opening": mark,
        "boundary": mark,
        "true_boundary": np.arange(STEPS) == 3,
        "skip_mean": random.uniform(0.4, 1, (STEPS, 9)),
        "skip_sd": random.uniform(0.01, 0.03, (STEPS, 9)),
        **changes,
    }


EPISODES = [_episode(0), _episode(1)]
FOCUS = ["hand", "hand", "object", "object", "object", "goal"]


def _example(seed=0, **changes):
    """Looks at the hand, then at the object, then at the goal, each time where it is least unsure of both."""
    random = np.random.default_rng(seed)
    unsure = random.uniform(0.001, 0.01, (2, STEPS, 3))
    unsure[:, np.arange(STEPS), [("hand", "object", "goal").index(name) for name in FOCUS]] = 0.0005
    episode = _episode(seed)
    return {
        "title": f"both {seed}",
        "variant": "learned",
        "sparsity": 2.0,
        "seed": 5,
        "condition": "both",
        **{name: episode[name] for name in ("kind", "table_height", "entities", "observation", "opening")},
        "focus": FOCUS,
        "end": 4,
        "intra": unsure[0],
        "inter": unsure[1],
        **changes,
    }


GAZE = [_example(0), _example(1), _example(2, variant="true", condition="inter", focus=["goal"] * STEPS)]
NOTHING = {"claims": [], "figures": [], "episodes": [], "settings": {}}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    if find() is None:
        missing = "no Chromium was found: install Debian's chromium"
        (pytest.fail if "CI" in os.environ else pytest.skip)(missing)
    with Page(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    Image.new("RGB", (900, 600), "white").save(folder / "errors.png")
    (folder / "errors.pdf").write_bytes(b"%PDF-1.4")
    figures = [Figure("Errors", "Over training.", folder / "errors.png", folder / "errors.pdf")]
    settings = {"command": "saccade reproduce all", "versions": {"jax": "0.10.2"}, "resumed": False, "λ": [0, 0.1]}
    path = folder / "report.html"
    report.write(path, title="Events", claims=CLAIMS, figures=figures, episodes=EPISODES, settings=settings)
    return path


def _text(page, selector):
    return page(f"document.querySelector({selector!r}).innerText")


def _step(page):
    return int(page("document.getElementById('step').value"))


def _pixels(page, selector="#space"):
    return page(f"document.querySelector({selector!r}).toDataURL()")


def _colours(page, selector):
    """How many different colours a canvas shows."""
    return page(
        f"""(canvas => new Set(new Uint32Array(canvas.getContext("2d").getImageData(
        0, 0, canvas.width, canvas.height).data.buffer)).size)(document.querySelector({selector!r}))"""
    )


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_loads_without_complaint_and_asks_for_nothing(page, sample, dark):
    page.open(sample, dark=dark)
    assert page.complaints() == []
    assert page.requests() == []
    assert page("document.querySelector('figure img').naturalWidth") == 900


def test_nothing_is_left_in_the_global_scope(page, sample):
    page.open(sample)
    elsewhere = "document.body.appendChild(document.createElement('iframe')).contentWindow"
    own = f"(bare => Object.getOwnPropertyNames(window).filter(name => !(name in bare)))({elsewhere})"
    assert set(page(own)) <= {"0"}  # the frame itself


def test_claims_are_shown_with_their_verdicts(page, sample):
    page.open(sample)
    rows = page("[...document.querySelectorAll('.claims tbody tr')].map(row => row.innerText)")
    for row, claim, symbol in zip(rows, CLAIMS, "✓✗○", strict=True):
        assert claim["id"] in row
        assert f"{symbol} {claim['verdict']}" in row
    assert "1.042" in rows[0] and "0.98 to 1.1" in rows[0] and "seeds 5–7, 9 · full scale · fast recipe" in rows[0]
    assert "F1 0.91 (random 0.2)" in rows[1]
    assert "to" not in page("document.querySelector('.claims tr:nth-child(3) .value').innerText")
    colours = page("[...document.querySelectorAll('.claims .verdict')].map(one => getComputedStyle(one).color)")
    assert len(set(colours)) == 3
    assert _text(page, ".summary").split("\n") == ["✓ 1 holds", "✗ 1 does not hold", "○ 1 not yet run"]


def test_figures_have_a_caption_an_alternative_text_and_their_pdf(page, sample):
    page.open(sample)
    assert "Figure 1. Errors Over training." in _text(page, "figcaption")
    assert page("document.querySelector('figure img').alt") == "Errors"
    assert page("document.querySelector('figcaption a').download") == "errors.pdf"
    assert page("atob(document.querySelector('figcaption a').href.split(',')[1])") == "%PDF-1.4"
    page.click(".enlarge")
    assert page("document.getElementById('large').open")
    assert page("document.querySelector('#large img').naturalWidth") == 900
    page.click("#large button")
    assert not page("document.getElementById('large').open")


def test_settings_open_and_the_command_is_copied(page, sample):
    page.open(sample)
    assert not page("document.querySelector('.settings').checkVisibility()")
    page.click("section:last-of-type > details > summary")
    assert "versions.jax\t0.10.2" in _text(page, ".settings")
    assert "resumed\tno" in _text(page, ".settings") and "λ\t0, 0.1" in _text(page, ".settings")
    page.click("section:last-of-type .copy")
    for _ in range(100):  # the browser takes its time to answer whether it may
        if _text(page, "section:last-of-type .copy") != "Copy":
            break
        time.sleep(0.01)
    assert _text(page, "section:last-of-type .copy") == "Copied"


def test_the_slider_changes_the_step_and_what_is_expected(page, sample):
    page.open(sample)
    before, picture = _text(page, "#readout"), _pixels(page)
    assert _text(page, "#shown") == f"Step 1 of {STEPS}"
    for number in EPISODES[0]["skip_mean"][0, :3]:
        assert f"{number:.3f}" in before
    page.click("#step", across=3 / STEPS)
    assert _text(page, "#shown") == f"Step 4 of {STEPS}"
    assert _text(page, "#state") == "grasp · gate open · learned boundary · true boundary"
    for number in EPISODES[0]["skip_mean"][3, :3]:
        assert f"{number:.3f}" in _text(page, "#readout")
    assert _pixels(page) != picture
    assert "Step 4" in page("document.getElementById('step').getAttribute('aria-valuetext')")


def test_arrow_keys_go_step_by_step(page, sample):
    page.open(sample)
    page.box("#viewer")
    page.key("ArrowRight")
    page.key("ArrowRight")
    assert _step(page) == 2
    assert f"{EPISODES[0]['skip_mean'][2, 0]:.3f}" in _text(page, "#readout")
    page.key("ArrowLeft")
    assert _step(page) == 1
    page("document.getElementById('step').focus()")  # the slider has these keys of its own: not twice
    page.key("ArrowRight")
    assert _step(page) == 2
    page.click("#forward")
    page.click("#back")
    page.click("#back")
    assert _step(page) == 1


def test_the_end_shows_what_followed_the_last_action(page, sample):
    page.open(sample)
    page.click("#step", across=0.995)
    assert _text(page, "#shown") == f"End, after step {STEPS}"
    assert f"{EPISODES[0]['observation'][-1, 0]:.3f}" in _text(page, "#readout")
    assert "nothing is expected" in _text(page, "#readout-caption")
    assert page("document.getElementById('forward').disabled")


@pytest.mark.parametrize("trace", range(5))
def test_clicking_a_trace_moves_the_time(page, sample, trace):
    page.open(sample)
    names = page("[...document.querySelectorAll('.trace h4')].map(one => one.firstChild.data)")
    assert names == ["Phases", "Gates", "Strength", "Distances", "Actions"]
    page(f"document.querySelectorAll('.plot canvas')[{trace}].id = 'clicked'")
    assert _colours(page, "#clicked") > 5
    cursor = "document.querySelector('.cursor').style.transform"
    before = page(cursor)
    page.click("#clicked", across=0.5)
    assert _step(page) == 3
    assert page(cursor) != before


def test_traces_say_in_words_what_they_show(page, sample):
    page.open(sample)
    assert "learned boundaries: steps 1, 4 · true boundaries: step 4" in _text(page, "#facts")
    seen = EPISODES[0]["observation"][0]
    assert f"hand–object {np.linalg.norm(seen[:3] - seen[3:6]):.3f}" in _text(page, "#traces")
    assert page("[...document.querySelectorAll('canvas')].every(one => one.getAttribute('aria-label'))")
    for word in ("Hollow shape", "Dashed ellipse", "Learned boundary", "True boundary", "Gates", "Strength"):
        assert word in _text(page, "#viewer")


def test_play_goes_on_by_itself_until_it_is_stopped_or_over(page, sample):
    page.open(sample)
    page.click("#play")
    assert page("document.getElementById('play').getAttribute('aria-label')") == "Pause"
    until = "new Promise(done => {{ const look = () => {} ? done(true) : setTimeout(look, 10); look(); }})"
    page(until.format("document.getElementById('step').value > 1"))
    page.click("#play")
    stopped = _step(page)
    time.sleep(0.4)
    assert _step(page) == stopped
    page.click("#play")
    page(until.format("!document.querySelector('.playing')"))
    assert _step(page) == STEPS


def test_sequences_can_be_changed(page, sample):
    page.open(sample)
    assert page("[...document.getElementById('episode').options].map(one => one.text)") == ["reach 0", "reach 1"]
    before, picture = _text(page, "#readout"), _pixels(page)
    page.click("#next")
    assert f"{EPISODES[1]['skip_mean'][0, 0]:.3f}" in _text(page, "#readout")
    assert _pixels(page) != picture
    assert "seed 1" in _text(page, "#facts")
    assert page("document.getElementById('next').disabled")
    page("(s => {s.value = 0; s.dispatchEvent(new Event('change'))})(document.getElementById('episode'))")
    assert _text(page, "#readout") == before


def test_the_view_turns_and_zooms(page, sample):
    page.open(sample)
    assert _colours(page, "#space") > 20
    home = _pixels(page)
    page.drag("#space", 80, 0)
    sideways = _pixels(page)
    assert sideways != home
    page.drag("#space", 0, 40)
    turned = _pixels(page)
    assert turned != sideways
    box = page.box("#space")
    time.sleep(0.3)  # a scroll that is still going on would not zoom
    middle = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    page.mouse("mouseWheel", **middle, deltaX=0, deltaY=-120, button="none", buttons=0)
    page.settle()
    zoomed = _pixels(page)
    assert zoomed != turned
    page("document.getElementById('space').focus()")
    page.key("ArrowUp", shift=True)
    assert _pixels(page) != zoomed
    assert _step(page) == 0
    page.click("#reset")
    assert _pixels(page) == home


@pytest.mark.parametrize("opened", [False, True])
def test_nothing_is_wider_than_a_phone(page, sample, opened):
    page.open(sample, width=375, height=700, scale=2)
    if opened:
        page("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page("document.documentElement.scrollWidth <= innerWidth && innerWidth === 375")
    assert page("getComputedStyle(document.querySelector('.claims tr')).display") == "grid"
    small = page("[...document.querySelectorAll('.choose button, .transport button, select')].map(b => b.offsetHeight)")
    assert min(small) >= 44


def test_a_finger_scrubs_through_time_on_a_phone(page, sample):
    page.open(sample, width=375, height=700, scale=2)
    box = page.box(".plot canvas")
    at = {"x": box["x"] + 0.6 * box["width"], "y": box["y"] + 10}
    page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[at])
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert _step(page) == 3


def test_two_fingers_zoom_the_view_on_a_phone(page, sample):
    page.open(sample, width=375, height=700, scale=2)
    box, home = page.box("#space"), _pixels(page)
    for kind, apart in (("touchStart", 30), ("touchMove", 60)):
        touched = [
            {"x": box["x"] + 150 + side * apart, "y": box["y"] + 100, "id": number}
            for number, side in enumerate((-1, 1))
        ]
        page.call("Input.dispatchTouchEvent", type=kind, touchPoints=touched)
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    page.settle()
    assert _pixels(page) != home
    page.click("#reset")
    assert _pixels(page) == home


# --- Where models look ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gaze(tmp_path_factory):
    path = tmp_path_factory.mktemp("gaze") / "report.html"
    report.write(path, title="Gaze", **{**NOTHING, "episodes": EPISODES}, gaze=GAZE)
    return path


@pytest.mark.parametrize("dark", [False, True])
def test_a_page_with_gaze_loads_without_complaint(page, gaze, dark):
    page.open(gaze, dark=dark)
    assert page.complaints() == [] and page.requests() == []
    assert page("document.querySelector('nav').innerText").split() == [
        *("Claims", "Sequences", "Gaze", "Figures", "Settings")
    ]
    assert page("new Set([...document.querySelectorAll('[id]')].map(one => one.id)).size") == page(
        "document.querySelectorAll('[id]').length"
    )


def test_the_focus_moves_with_time(page, gaze):
    page.open(gaze)
    seen = []
    for step in range(STEPS):
        seen.append(_text(page, "#gaze-state").split(" · ")[0])
        chosen = page("[...document.querySelectorAll('#gaze-readout tr.chosen th')].map(one => one.innerText.trim())")
        assert chosen == [FOCUS[step]]
        assert f"looking at {FOCUS[step]}" in page("document.getElementById('gaze-space').ariaLabel")
        page.click("#gaze-forward")
    assert seen == [f"looks at the {name}" for name in FOCUS]
    assert "nothing is chosen" in _text(page, "#gaze-readout-caption")
    assert page("document.querySelectorAll('#gaze-readout .bar').length") == 0
    assert "first looks: hand 1, object 3, goal 6 · the hand gets there at step 4" in _text(page, "#gaze-facts")
    assert _step(page) == 0  # the other viewer stays where it is


def test_the_attended_entity_is_ringed(page, tmp_path):
    painted = """(canvas => { const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        const count = (r, g, b) => data.filter((_, k) => k % 4 === 0 && data[k] === r && data[k + 1] === g
            && data[k + 2] === b).length;
        return [count(0, 114, 178), count(0, 158, 115)]; })(document.getElementById("gaze-space"))"""
    blue, green = [], []
    for name in ("goal", "hand", "object"):
        report.write(tmp_path / "a.html", title="", **NOTHING, gaze=[_example(focus=[name] * STEPS)])
        page.open(tmp_path / "a.html")
        counts = page(painted)
        blue.append(counts[0]), green.append(counts[1])
    assert blue[1] > blue[0] + 100 and abs(blue[2] - blue[0]) < 30
    assert green[2] > green[0] + 100 and abs(green[1] - green[0]) < 30


def test_bars_show_both_uncertainties_of_each_focus(page, gaze):
    page.open(gaze)
    cells = page("[...document.querySelectorAll('#gaze-readout td')].map(one => parseFloat(one.innerText))")
    intra, inter = (1e4 * np.asarray(GAZE[0][name][0]) for name in ("intra", "inter"))
    np.testing.assert_allclose(cells, np.stack([intra, inter], 1).ravel(), rtol=1e-3)
    widths = page("[...document.querySelectorAll('#gaze-readout .bar')].map(one => parseFloat(one.style.width))")
    np.testing.assert_allclose(widths[::2], 100 * intra / intra.max(), rtol=1e-3)
    least = page("[...document.querySelectorAll('#gaze-readout .bar')].map(one => one.classList.contains('least'))")
    assert least == [True, True, False, False, False, False]
    titles = page("[...document.querySelectorAll('#gaze-traces h4')].map(one => one.firstChild.data)")
    assert titles == ["Focus", "Unsure of the next step (cm²)", "Unsure of the next event (cm²)", "Distances"]


def test_gaze_plays_and_is_scrubbed_by_itself(page, gaze):
    page.open(gaze)
    page("document.querySelector('#gaze-traces canvas').id = 'clicked'")
    assert _colours(page, "#clicked") > 5
    page.click("#clicked", across=0.5)
    assert page("document.getElementById('gaze-step').value") == "3"
    page.box("#gaze-viewer")
    page.key("ArrowLeft")
    assert page("document.getElementById('gaze-step').value") == "2"
    page.click("#gaze-play")
    over = "document.querySelector('.playing') ? setTimeout(look, 10) : done()"
    page(f"new Promise(done => {{ const look = () => {over}; look(); }})")
    assert page("document.getElementById('gaze-step').value") == str(STEPS)
    assert _step(page) == 0
    page.box("#viewer")
    page.key("ArrowRight")
    assert _step(page) == 1
    page.key("ArrowLeft")
    assert _step(page) == 0
    assert page("document.getElementById('gaze-step').value") == str(STEPS)


def test_watched_sequences_are_grouped_by_their_model(page, gaze):
    page.open(gaze)
    groups = page("[...document.querySelectorAll('#gaze-episode optgroup')].map(g => [g.label, g.innerText.trim()])")
    assert [name for name, _ in groups] == ["learned, λ = 2", "true, λ = 2"]
    page.click("#gaze-next")
    page.click("#gaze-next")
    facts = _text(page, "#gaze-facts")
    assert "true, λ = 2 · inter · first looks: hand never, object never, goal 1" in facts
    assert "boundaries" not in facts


def test_gaze_fits_on_a_phone(page, gaze):
    page.open(gaze, width=375, height=700, scale=2)
    assert page("document.documentElement.scrollWidth <= innerWidth && innerWidth === 375")
    tall = page(
        "[...document.querySelectorAll('#gaze-viewer :is(.choose, .transport) button')].map(b => b.offsetHeight)"
    )
    assert min(tall) >= 44
    box = page.box("#gaze-traces canvas")
    at = {"x": box["x"] + 0.6 * box["width"], "y": box["y"] + 10}
    page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[at])
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert page("document.getElementById('gaze-step').value") == "3"


def test_gaze_alone_leaves_out_what_there_is_nothing_of(page, tmp_path, gaze):
    shown = "['sequences', 'gaze'].map(id => document.getElementById(id).checkVisibility())"
    report.write(tmp_path / "a.html", title="Gaze", **NOTHING, gaze=GAZE)
    page.open(tmp_path / "a.html")
    assert page(shown) == [False, True]
    page.open(gaze)
    assert page(shown) == [True, True]
    report.write(tmp_path / "a.html", title="None", **NOTHING)
    page.open(tmp_path / "a.html")
    assert page(shown) == [True, False]
    assert "Gaze" not in _text(page, "nav")


# --- Whatever is given ---------------------------------------------------------------------------------------------


def test_hostile_text_is_only_text(page, tmp_path):
    names = {"title": HOSTILE, "kind": HOSTILE, "seed": HOSTILE, "phase": [HOSTILE] * STEPS}
    hostile = dict(_episode(), **names, entities={HOSTILE: [0, 1, 2]}, action_names=[HOSTILE, "b"])
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    report.write(
        tmp_path / "a.html",
        title=HOSTILE,
        claims=[_claim(id=HOSTILE, claim=HOSTILE, check=HOSTILE, value=HOSTILE, command=HOSTILE, scale=HOSTILE)],
        figures=[Figure(HOSTILE, HOSTILE, tmp_path / "a.png")],
        episodes=[hostile],
        settings={HOSTILE: HOSTILE, "command": HOSTILE},
        gaze=[
            _example(
                **dict.fromkeys(("title", "variant", "condition", "kind"), HOSTILE),
                entities={HOSTILE: [0, 1, 2]},
                focus=[HOSTILE] * STEPS,
                intra=np.ones((STEPS, 1)),
                inter=np.ones((STEPS, 1)),
            )
        ],
    )
    page.open(tmp_path / "a.html")
    assert page.complaints() == []
    assert page.requests() == []
    assert page("window.broken === undefined && document.querySelectorAll('img[src=x]').length === 0")
    assert _text(page, "h1") == HOSTILE
    assert page("document.title") == HOSTILE
    assert page("document.querySelector('.claims .claim').firstChild.data") == HOSTILE
    assert page("document.querySelector('#episode option').text") == HOSTILE
    assert HOSTILE in page("document.querySelector('#facts').textContent")
    assert HOSTILE in page("document.querySelector('#gaze-facts').textContent")
    assert HOSTILE.replace("_", " ") in page("document.querySelector('#readout').textContent")


def test_nothing_to_show_is_said(page, tmp_path):
    report.write(tmp_path / "a.html", title="Nothing", **NOTHING)
    page.open(tmp_path / "a.html")
    assert page.complaints() == []
    assert not page("document.getElementById('viewer').checkVisibility()")
    for said in ("No claim has been judged", "kept no sequences", "drew no figures", "told no settings"):
        assert said in _text(page, "main")


def test_sequences_of_other_things_are_shown(page, tmp_path):
    """A user's own: things in a plane, nothing with a place, no actions, no phases, no predictions, gaps."""
    gap = np.ones((STEPS + 1, 4))
    gap[2, 1] = np.nan
    little = {
        "phase": None,
        "true_boundary": None,
        "skip_mean": None,
        "skip_sd": None,
        "table_height": None,
        "observation": gap,
        "observation_names": list("abcd"),
        "action_names": [],
        "action": np.zeros((STEPS, 0)),
    }
    flat = _episode(**little, entities={"one": [0, 1], "two": [2, 3], "three": [3]})
    placeless = _episode(**little, entities={})
    report.write(tmp_path / "a.html", title="Mine", **{**NOTHING, "episodes": [flat, placeless]})
    page.open(tmp_path / "a.html")
    titles = "[...document.querySelectorAll('.trace h4')].map(one => one.firstChild.data)"
    assert page(titles) == ["Gates", "Strength", "Distances"]
    assert _colours(page, "#space") > 5
    page.click("#step", across=2 / STEPS)
    assert _text(page, "#readout").split("\n")[0] == "one\t1.000 –"
    assert "true boundaries" not in _text(page, "#facts")
    page.click("#next")
    assert page(titles) == ["Gates", "Strength", "Observations"]
    assert not page("document.getElementById('space').checkVisibility()")
    assert page.complaints() == []


def test_the_page_follows_when_the_screen_turns_dark(page, sample):
    page.open(sample)
    light = _pixels(page)
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.settle()
    assert _pixels(page) != light


# --- Without a browser ---------------------------------------------------------------------------------------------


def test_the_same_run_gives_the_same_bytes_over_what_was_there(tmp_path):
    for name in ("a.html", "b.html"):
        (tmp_path / name).write_text("old")
        report.write(tmp_path / name, title="Events", **{**NOTHING, "claims": CLAIMS, "episodes": EPISODES})
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a.html", "b.html"]


def test_numbers_are_rounded(tmp_path):
    report.write(tmp_path / "a.html", title="Events", **{**NOTHING, "episodes": [_episode(strength=np.full(6, 1 / 3))]})
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert '"strength":[0.33333,' in text
    assert len(text) < 80_000


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"observation": np.zeros((1, 9))}, "1 rows of observation: wanted at least 2"),
        ({"observation_names": ["a"]}, "1 observation_names for 9"),
        ({"entities": {"hand": [0, 9]}}, "entity 'hand' has dimensions .* from 0 to 8"),
        ({"entities": {"hand": [0, 1, 2, 3]}}, "wanted 1 to 3"),
        ({"action": np.zeros((5, 2))}, r"action of shape \(5, 2\): wanted \(6, 2\)"),
        ({"skip_mean": np.zeros((6, 8))}, r"skip_mean of shape \(6, 8\): wanted \(6, 9\)"),
        ({"boundary": [True]}, r"boundary of shape \(1,\): wanted \(6,\)"),
        ({"phase": ["reach"]}, "1 phases: wanted 6"),
    ],
)
def test_an_episode_that_does_not_fit_is_refused(tmp_path, changes, says):
    with pytest.raises(InputError, match=says):
        report.write(tmp_path / "a.html", title="", **{**NOTHING, "episodes": [_episode(**changes)]})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"focus": FOCUS[1:]}, "5 steps of focus: wanted 6"),
        ({"focus": ["claw", *FOCUS[1:]]}, "focus 'claw' is unknown"),
        ({"inter": np.zeros((6, 2))}, r"inter of shape \(6, 2\): wanted \(6, 3\)"),
        ({"opening": [True]}, r"opening of shape \(1,\): wanted \(6,\)"),
    ],
)
def test_a_gaze_example_that_does_not_fit_is_refused(tmp_path, changes, says):
    with pytest.raises(InputError, match=says):
        report.write(tmp_path / "a.html", title="", **NOTHING, gaze=[_example(**changes)])
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_shown_is_refused(tmp_path):
    with pytest.raises(InputError, match="verdict 'perhaps' is unknown"):
        report.write(tmp_path / "a.html", title="", **{**NOTHING, "claims": [_claim(verdict="perhaps")]})
    (tmp_path / "b.png").write_bytes(b"no picture")
    for name, says in (("b.png", "is no PNG picture"), ("c.png", "cannot be read")):
        with pytest.raises(FileError, match=says):
            report.write(tmp_path / "a.html", title="", **{**NOTHING, "figures": [Figure("", "", tmp_path / name)]})
    with pytest.raises(FileError, match="cannot be written"):
        report.write(tmp_path / "none" / "a.html", title="", **NOTHING)
    assert os.listdir(tmp_path) == ["b.png"]
