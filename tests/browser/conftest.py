"""A real Chromium against the real page: started once, every visit watched for errors.

A missing browser or missing models fail in continuous integration and skip elsewhere.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from confu_demo.suites import BUNDLED, parts_of

ROOT = Path(__file__).resolve().parents[2]
ARGUMENTS = (
    "--no-sandbox", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-gpu",
)  # fmt: skip
START_SECONDS = 300.0
PATIENCE = 120.0
"""Seconds to wait for what normally takes one: the machine may be busy with other work."""
DESKTOP = {"width": 1400, "height": 900}
PHONE = {"width": 390, "height": 844}
VIEWER = "(window.ConfuHost ? ConfuHost.viewerForTests : window.viewer)"
"""In the Gradio page ``window.viewer`` is the element of that id."""


def unavailable(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        unavailable("the browser tests need Chromium: install it or set CHROMIUM to its path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@dataclass
class Visit:
    """One visitor's page and what went wrong on it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "about") and parts.hostname != "127.0.0.1":
            self.outside.append(request.url)

    def viewer(self, expression: str) -> Any:
        """The value of a JavaScript expression about ``viewer``."""
        return self.page.evaluate(f"(() => {{ const viewer = {VIEWER}; return {expression}; }})()")

    def settle(self) -> None:
        """Waits until what was asked for has been drawn."""
        self.page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def act(self, action: str, value: object = None) -> None:
        self.page.evaluate(
            f"([action, value]) => ({VIEWER}).act(action, value)",
            [action, value],
        )
        self.settle()

    def open_tab(self, name: str) -> None:
        """Presses the tab of a page of the viewer: race, tokens or steps."""
        self.page.locator(f".cf-tab[data-tab={name}]").click()
        self.settle()

    def wait_for(self, expression: str, seconds: float = PATIENCE) -> None:
        self.page.wait_for_function(
            f"() => {{ const viewer = {VIEWER}; return viewer && ({expression}); }}",
            timeout=seconds * 1000,
        )
        # The state is drawn in the next frame, and tests read what is drawn.
        self.page.evaluate(
            "() => new Promise((go) =>"
            " requestAnimationFrame(() => requestAnimationFrame(() => go())))"
        )


NewVisit = Callable[..., Visit]


@pytest.fixture
def visit(chromium: Browser) -> Iterator[NewVisit]:
    """Opens pages for visitors of their own. At the end none may have seen a console error or
    a request that leaves the machine."""
    visits: list[Visit] = []

    def open_page(url: str | None = None, **context: Any) -> Visit:
        page = chromium.new_context(viewport=context.pop("viewport", DESKTOP), **context).new_page()
        page.set_default_timeout(PATIENCE * 1000)
        found = Visit(page)
        found.watch()
        visits.append(found)
        if url is not None:
            page.goto(url)
            found.wait_for("viewer.timeline.entries.length > 0 || viewer.race.message")
        return found

    yield open_page
    for found in visits:
        found.page.context.close()
        assert found.outside == []
        assert found.errors == []


@dataclass
class Server:
    url: str
    log: Path

    def printed(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def wait_until_printed(self, text: str, count: int = 1, seconds: float = PATIENCE) -> str:
        end = time.monotonic() + seconds
        while self.printed().count(text) < count:
            assert time.monotonic() < end, self.printed()
            time.sleep(0.05)
        return self.printed()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(command: list[str], log: Path) -> Iterator[Server]:
    """Runs a page's process until it answers, and ends it afterwards."""
    port = free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command, "--port", str(port)],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            _wait_until_it_answers(process, port, log)
            yield Server(f"http://127.0.0.1:{port}/", log)
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"the page did not start:\n{log.read_text(encoding='utf-8')}")


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The whole page on a scripted runner; it prints a line when a race is closed."""
    folder = tmp_path_factory.mktemp("scripted")
    with serving(
        ["-m", "tests.browser.scripted_app", "--folder", str(folder)], folder / "log"
    ) as s:
        yield s


@pytest.fixture(scope="session")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """``app.py`` itself on the bundled models."""
    missing = [status.part for status in parts_of(BUNDLED) if not status.is_there]
    if missing:
        unavailable(f"the bundled suite has no {', '.join(missing)} in {BUNDLED.folder}")
    with serving(["app.py"], tmp_path_factory.mktemp("application") / "log") as server:
        yield server
