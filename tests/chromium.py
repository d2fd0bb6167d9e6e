"""A headless Chromium that tests speak to by its own protocol, through a pipe."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """A page in a browser of its own.

    Attributes:
        problems: what the console, the security policy and the network have complained of.
        requests: addresses that were asked for.
    """

    def __init__(self, sink: int, source: int):
        self._sink, self._source = sink, source
        self._count, self._rest, self._session = 0, b"", None
        self.problems, self.requests, self._loaded = [], [], False
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self(f"{domain}.enable")

    def __call__(self, method, **given):
        """Send a command and return its answer; what happens meanwhile is noted."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": given}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._sink, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == self._count:
                assert "error" not in found, f"{method}: {found['error']}"
                return found["result"]
            self._note(found)

    def _read(self):
        while b"\0" not in self._rest:
            content = os.read(self._source, 2**20)
            assert content, "Chromium has ended"
            self._rest += content
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def _note(self, event):
        kind, told = event.get("method"), event.get("params", {})
        if kind == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif kind in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.problems.append(told)
        elif kind == "Page.loadEventFired":
            self._loaded = True

    def open(self, path, width=1280, height=900, scheme="light"):
        """Show a file, or an address, on a screen of a width, by day (light) or night (dark)."""
        self._loaded = False
        self("Emulation.setDeviceMetricsOverride", width=width, height=height,
             deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self("Emulation.setEmulatedMedia", features=features)
        web = str(path).startswith("http:")
        self("Page.navigate", url=path if web else Path(path).resolve().as_uri())
        while not self._loaded:
            self._note(self._read())

    def ask(self, expression):
        """Return the value of an expression in the page."""
        found = self("Runtime.evaluate", expression=expression, returnByValue=True)["result"]
        return found.get("value")

    def press(self, key, code=0):
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def tree(self):
        """Return role and name of all that a screen reader finds."""
        nodes = self("Accessibility.getFullAXTree")["nodes"]
        return [(each["role"]["value"], each.get("name", {}).get("value", ""))
                for each in nodes if not each.get("ignored")]  # fmt: skip

    def shoot(self, path):
        """Write a picture of the whole page."""
        found = self("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        Path(path).write_bytes(base64.b64decode(found["data"]))


@contextlib.contextmanager
def chromium():
    """Start a browser; it ends with this."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                   "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                   "--disable-component-update", f"--user-data-dir={profile}")  # fmt: skip
        script = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        begun = subprocess.Popen(["bash", "-c", script, PROGRAM, *options],
                                 pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Chromium(ours_out, ours_in)
        finally:
            begun.terminate()
            begun.wait(20)
            os.close(ours_out)
            os.close(ours_in)
