"""A lab as a learner does it: in a real JupyterLab, first wrong, then right."""

import os
import re
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request

import pytest
from conftest import ROOT

from kernels.grading.notebooks import read_submissions

sys.path.append(str(ROOT / "labs"))
import working_copies

pytestmark = pytest.mark.browser

LAB = ROOT / "labs" / "coalescing.ipynb"
SOLUTION = read_submissions(ROOT / "labs" / "solutions" / LAB.name)["permuted_copy"]
HEAD = "%%cuda permuted_copy\n"
KERNEL_IN_PYTHON = '''
made = RawKernel(r"""extern "C" __global__ void made(float* y)
{
    y[0] = 1;  // of C
}
""", "made")  # of Python
'''


@pytest.fixture
def jupyter(tmp_path, monkeypatch):
    """The address of a JupyterLab that shows a learner's copies of the labs."""
    for where in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"):  # signatures, and which pages were open
        monkeypatch.setenv(where, str(tmp_path / where))
    for lab in LAB.parent.glob("*.ipynb"):
        working_copies.trust(shutil.copy(lab, tmp_path))
    (tmp_path / "contents.md").write_text(f"# Contents\n\n1. [Lab: a permuted copy]({LAB.name})\n")
    token, log = secrets.token_hex(), tmp_path / "jupyter.log"
    options = [
        f"--ServerApp.root_dir={tmp_path}",
        f"--IdentityProvider.token={token}",
        "--ServerApp.port=0",
        "--no-browser",
    ]
    command = [sys.executable, "-m", "jupyterlab", "--allow-root", "--ip=127.0.0.1", *options]
    command.append(f"--LabApp.app_settings_dir={ROOT / 'book' / 'lab_settings'}")
    command.append(f"--LabApp.extra_labextensions_path={ROOT / 'book' / 'lab_extensions'}")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}  # of the notebooks' kernels
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=tmp_path, env=environment)
    try:
        deadline = time.monotonic() + 120
        while not (found := re.search(r"http://127\.0\.0\.1:\d+/", log.read_text())):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.3)
        urllib.request.urlopen(f"{found[0]}api?token={token}").close()
        yield f"{found[0]}lab/tree/contents.md?token={token}"
    finally:
        process.terminate()
        process.wait(20)


class Notebook:
    """The notebook in JupyterLab's page."""

    def __init__(self, page):
        self.page = page
        self.ready = page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first

    def cell(self, text):
        cell = self.page.locator(".jp-CodeCell", has_text=text).first
        cell.scroll_into_view_if_needed()
        return cell

    def run(self, text):
        """Run the cell that has this text, and wait until it is done."""
        self.cell(text).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        self.page.locator(".jp-CodeCell.jp-mod-active .jp-InputPrompt", has_text=re.compile(r"\[\d+\]")).wait_for(
            timeout=90_000
        )

    def write(self, text, new):
        """Put `new` in place of the cell that has this text."""
        self.cell(text).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(new)


def test_the_lens_keeps_its_columns_in_jupyterlab(browser, jupyter):
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    page.goto(jupyter.replace("contents.md", "start.ipynb"))
    source = page.locator(".lens td.source").first  # as stored, not run
    source.wait_for(timeout=90_000)
    widths = "(td) => [td.offsetWidth, td.closest('table').offsetWidth]"
    own, whole = source.evaluate(widths)
    assert source.evaluate("(td) => getComputedStyle(td).textAlign") == "left"
    assert own > whole / 3
    page.close()


def test_a_wrong_solution_is_told_its_cause_and_a_right_one_passes(browser, jupyter):
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    page.goto(jupyter)
    page.locator(".jp-RenderedMarkdown a", has_text="Lab: a permuted copy").click(timeout=90_000)
    notebook = Notebook(page)
    page.locator(".jp-CodeCell", has_text="%load_ext").first.wait_for(timeout=90_000)
    notebook.ready.wait_for(timeout=90_000)
    assert notebook.cell("%%cuda permuted_copy").locator(".cm-lineNumbers").is_visible()
    # Coloured as C++, where Python would see two operators and three names.
    comment = notebook.cell("%%cuda permuted_copy").locator(
        ".cm-content span", has_text=re.compile("^// your code here$")
    )
    comment.wait_for()
    notebook.run("%load_ext")

    def submit(text):
        notebook.write("%%cuda permuted_copy", HEAD + text)
        notebook.run("%%cuda permuted_copy")
        notebook.cell("grading.check(").locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        notebook.cell("grading.check(").get_by_text(re.compile("permuted_copy: .* …")).wait_for(timeout=90_000)
        return notebook.cell("grading.check(").locator(".jp-OutputArea-output .report")

    wrong = submit(SOLUTION.replace("int d = i % D;", "int d = i % D; if (d == 1) return;"))
    wrong.locator(".broken", has_text="every element of y is written").wait_for(timeout=90_000)
    assert "were never written" in wrong.inner_text()
    assert wrong.locator("details").count() == 1  # a hint
    right = submit(SOLUTION)
    right.get_by_text("permuted_copy: solved").wait_for(timeout=90_000)
    assert right.locator(".broken").count() == 0
    assert "…" not in notebook.cell("grading.check(").locator(".jp-OutputArea").inner_text()  # of the status line
    assert "sectors read" in right.locator(".success").inner_text()
    after = right.locator(".success a")
    following = f"{after.inner_text()}.ipynb"
    after.click()
    page.locator(".lm-TabBar-tabLabel", has_text=following).wait_for()
    page.locator(".lm-TabBar-tabLabel", has_text=LAB.name).click()

    notebook.write("%%cuda permuted_copy", HEAD + SOLUTION.replace("int d", "int int d"))
    notebook.run("%%cuda permuted_copy")
    said = notebook.cell("%%cuda permuted_copy").locator(".jp-OutputArea-output .report pre")
    said.wait_for(timeout=90_000)
    assert re.search(r"\d+ \|     int int d", said.inner_text())

    notebook.write("%%cuda permuted_copy", KERNEL_IN_PYTHON)
    for comment in ("// of C", "# of Python"):  # each in its language's colour, and not in that of a string
        notebook.cell("made =").locator(".cm-content span", has_text=re.compile(f"^{comment}$")).wait_for()
    page.close()
