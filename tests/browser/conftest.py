"""The book in a real browser: built once, served from 127.0.0.1, visited with headless Chromium."""

import contextlib
import functools
import http.server
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECKS = (Path(__file__).parent / "checks.js").read_text("utf-8")
# Without these Chromium looks its maker's hosts up on its own account.
FLAGS = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
FLAGS += ["--disable-quic", "--disable-gpu", "--no-sandbox"]
FIGURES_FIT = """() => [...document.querySelectorAll("figure.plotly-figure .plot")].every((plot) => {
  const drawn = plot.querySelector("svg.main-svg");
  return !plot.clientWidth || (drawn && Math.abs(drawn.clientWidth - plot.clientWidth) <= 2);
})"""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def serve():
    """serve(folder) gives the address at which it is served."""
    servers = []

    def start(folder):
        handler = functools.partial(QuietHandler, directory=str(folder))
        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def html(tmp_path_factory):
    """The folder of the built book."""
    output = tmp_path_factory.mktemp("book")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", ROOT, "--path-output", output]
    build = subprocess.run([*command, "-W", "-n", "--keep-going"], capture_output=True, text=True)
    assert build.returncode == 0, build.stdout + build.stderr
    return output / "_build" / "html"


@pytest.fixture(scope="session")
def book(serve, html):
    """The address of the served book."""
    return serve(html)


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium, "these tests need Chromium on PATH (Debian: apt-get install chromium)"
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=chromium, args=FLAGS)


class Visit:
    """One page, opened. `problems()` says what went wrong since, and what a reader would call broken."""

    def __init__(self, page, url):
        self.page = page
        self.seen = []
        page.on("request", self._request)
        page.on("response", lambda response: response.status >= 400 and self._saw(f"{response.status}: {response.url}"))
        page.on("console", lambda message: message.type == "error" and self._saw(f"console: {message.text}"))
        page.on("pageerror", lambda error: self._saw(f"script: {error}"))
        page.goto(url, wait_until="networkidle")
        self.settle()

    def _saw(self, problem):
        self.seen.append(problem)

    def _request(self, request):
        url = urlsplit(request.url)
        if url.scheme not in ("data", "blob") and url.hostname != "127.0.0.1":
            self._saw(f"request to outside: {request.url}")

    def settle(self):
        """Waits until figures have the width of their places, or long enough that `problems` may say so."""
        from playwright.sync_api import TimeoutError

        self.page.wait_for_timeout(300)
        with contextlib.suppress(TimeoutError):
            self.page.wait_for_function(FIGURES_FIT, timeout=5_000)

    def open_folds(self):
        self.page.evaluate("() => document.querySelectorAll('article details').forEach((fold) => (fold.open = true))")
        self.settle()

    def problems(self):
        return [*self.seen, *self.page.evaluate(CHECKS)]


@pytest.fixture(scope="session")
def contexts(browser):
    """One browsing context for each theme and width, so that a page's scripts are fetched once."""
    return functools.cache(
        lambda theme, width: browser.new_context(color_scheme=theme, viewport={"width": width, "height": 900})
    )


@pytest.fixture
def visit(contexts):
    """visit(url, theme="light", width=1280) opens a page."""
    pages = []

    def open_page(url, theme="light", width=1280):
        pages.append(contexts(theme, width).new_page())
        return Visit(pages[-1], url)

    yield open_page
    for page in pages:
        page.close()
