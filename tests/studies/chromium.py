"""A headless Chromium for tests, spoken to by its own DevTools protocol over a pipe: no driver, no client library."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--remote-debugging-pipe", "--force-color-profile=srgb"),
)


def find() -> str | None:
    """The path of a Chromium, if one is installed."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    """One browser with one page."""

    def __init__(self, profile: Path, *, seconds: float = 60):
        self.seconds = seconds
        self.events: list[dict] = []
        self._last, self._rest, self._session = 0, b"", None
        # The browser reads from its file 3 and writes to its file 4; numbers above 9 cannot get in the way of these.
        (its_in, out), (into, its_out) = os.pipe(), os.pipe()
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (its_in, its_out)]
        os.close(its_in), os.close(its_out)
        start = 'exec "${@:3}" 3<&"$1" 4>&"$2" >/dev/null 2>&1'
        self._process = subprocess.Popen(
            ["bash", "-c", start, "bash", *map(str, theirs), find() or "", *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=theirs,
            start_new_session=True,
        )
        for end in theirs:
            os.close(end)
        self._out, self._in = out, into
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # its own process group: this browser and nothing else
        self._process.wait()
        os.close(self._out), os.close(self._in)

    def call(self, method: str, **parameters) -> dict:
        """What the browser answers."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        answer = self._wait(lambda got: got.get("id") == self._last, method)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _wait(self, wanted, what: str) -> dict:
        end = time.monotonic() + self.seconds
        while True:
            while b"\0" in self._rest:
                text, self._rest = self._rest.split(b"\0", 1)
                got = json.loads(text)
                if "id" not in got:
                    self.events.append(got)
                if wanted(got):
                    return got
            if not select.select([self._in], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError(f"{what}: no answer from the browser in {self.seconds} s")
            some = os.read(self._in, 1 << 20)
            if not some:
                raise RuntimeError(f"{what}: the browser has ended")
            self._rest += some

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False, scale: int = 1) -> None:
        """Loads a file, as on a screen of this size; what was heard before is forgotten."""
        phone = width < 500
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._wait(lambda got: got.get("method") == "Page.loadEventFired", "loading")
        self.settle()

    def settle(self) -> None:
        """Waits until what was asked for is drawn."""
        self("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def __call__(self, expression: str):
        """The value of a JavaScript expression; a promise is waited for."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise RuntimeError(got["exceptionDetails"].get("exception", {}).get("description", expression))
        return got["result"].get("value")

    def requests(self) -> list[str]:
        """The addresses asked for that are not the file itself nor within it."""
        asked = [one["params"]["request"]["url"] for one in self.events if one["method"] == "Network.requestWillBeSent"]
        return [address for address in asked if not address.startswith(("file:", "data:"))]

    def complaints(self) -> list[str]:
        """What the browser had to complain of: errors, warnings, breaches of the content policy."""
        said = {"Runtime.exceptionThrown", "Log.entryAdded"}
        heard = [one for one in self.events if one["method"] in said]
        heard += [
            one
            for one in self.events
            if one["method"] == "Runtime.consoleAPICalled" and one["params"]["type"] in ("error", "warning", "assert")
        ]
        return [json.dumps(one["params"])[:500] for one in heard]

    def key(self, name: str, *, shift: bool = False) -> None:
        """Presses a key and lets go."""
        code = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Tab": 9}.get(name, 0)
        more = {"text": "\r"} if name == "Enter" else {}
        about = {"key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def box(self, selector: str) -> dict:
        """Where an element is on the screen, after scrolling to it."""
        found = json.dumps(selector)
        self(f"document.querySelector({found}).scrollIntoView({{block: 'center'}})")
        self.settle()
        return self(f"document.querySelector({found}).getBoundingClientRect().toJSON()")

    def mouse(self, kind: str, x: float, y: float, **more) -> None:
        """One event of the mouse, with its left button."""
        pressed = {"button": "left", "buttons": 1, "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **{**pressed, **more})

    def click(self, selector: str, across: float = 0.5, down: float = 0.5) -> None:
        """Clicks on an element, at a share of its width and height."""
        box = self.box(selector)
        x, y = box["x"] + across * box["width"], box["y"] + down * box["height"]
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y, buttons=0)

    def drag(self, selector: str, dx: float, dy: float) -> None:
        """Drags from an element's middle."""
        box = self.box(selector)
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.mouse("mousePressed", x, y)
        for part in (0.5, 1):
            self.mouse("mouseMoved", x + part * dx, y + part * dy)
        self.mouse("mouseReleased", x + dx, y + dy, buttons=0)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Saves what the page looks like, for a person to look at."""
        got = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(got["data"]))
