"""Guards around the notebook tests: nbval passes cells that were never executed, and files it never saw."""

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

ROOT = Path(__file__).parents[1]


def reading_order() -> list[Path]:
    """The pages of _toc.yml, in order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())

    def files(node: dict):
        if "file" in node:
            yield node["file"]
        for key in ("parts", "chapters", "sections"):
            for child in node.get(key, []):
                yield from files(child)

    pages = [toc["root"], *(name for part in toc.get("parts", [toc]) for name in files(part))]
    return [path for name in pages for path in ROOT.glob(f"{name}.*") if path.suffix in (".ipynb", ".md")]


NOTEBOOKS = [path for path in reading_order() if path.suffix == ".ipynb"]
LABS = sorted(ROOT.glob("labs/**/*.ipynb"))
EVERY = list(dict.fromkeys([*NOTEBOOKS, *LABS]))
each_path = pytest.mark.parametrize("path", EVERY, ids=lambda path: str(path.relative_to(ROOT)))


def each(test):
    """A test of the structure of every notebook, which is always run."""
    return pytest.mark.always(each_path(test))


def code_cells(path: Path) -> list[dict]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def tags(cell: dict) -> set[str]:
    return set(cell["metadata"].get("tags", []))


@pytest.mark.always
@pytest.mark.skipif(
    not (ROOT / ".git").exists(), reason="a copy without its history, where nothing says what is tracked"
)
def test_every_notebook_is_in_the_table_of_contents_and_tracked():
    tracked = subprocess.run(["git", "ls-files", "*.ipynb"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {str(path.relative_to(ROOT)) for path in EVERY} == set(tracked.stdout.split())
    assert len(NOTEBOOKS) >= 3


@each
def test_it_is_valid_format_4_5_with_cell_ids(path):
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


@each
def test_every_code_cell_was_executed_once_in_order(path):
    cells = code_cells(path)
    assert cells
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))


@each
def test_no_stored_output_is_an_error_or_a_warning(path):
    for cell in code_cells(path):
        for output in cell["outputs"]:
            assert output["output_type"] != "error", cell["id"]
            assert output.get("name") != "stderr", (cell["id"], output.get("text"))


@each
def test_most_outputs_are_compared(path):
    """Cells whose output is not compared are for raw times, machines and figures; the rest is evidence."""
    cells = code_cells(path)
    ignored = [cell for cell in cells if "nbval-ignore-output" in tags(cell)]
    assert len(ignored) <= len(cells) / 2


@each
def test_cells_are_short(path):
    """Short enough to read at once, and narrow enough for a page. A submission is a whole kernel."""
    for cell in code_cells(path):
        lines = "".join(cell["source"]).split("\n")
        assert len(lines) <= (45 if lines[0].startswith("%%") else 14), cell["id"]
        assert max(map(len, lines)) <= 76, cell["id"]


TAGS = {"answer", "edit", "hide-input", "hide-output", "nbval-ignore-output", "raw", "remove-cell"}


@each
def test_nothing_but_a_known_tag_loosens_a_comparison(path):
    for cell in code_cells(path):
        assert tags(cell) <= TAGS, cell["id"]
        assert not re.search(r"#\s*(NBVAL_|PYTEST_VALIDATE)", "".join(cell["source"])), cell["id"]
        for output in cell["outputs"]:
            if "nbval-ignore-output" not in tags(cell):
                assert "image/png" not in output.get("data", {}), f"{cell['id']}: nbval does not compare images"


def calls(cell: dict) -> set[str]:
    """The names of the functions that a cell calls, without the module before them."""
    source = "".join(cell["source"])
    text = "" if source.startswith("%%") else re.sub(r"^%.*", "", source, flags=re.MULTILINE)
    found = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in found}


@each
def test_a_cell_that_measures_is_not_compared_and_a_verdict_follows(path):
    cells = code_cells(path)
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        if calls(cell) & {"race", "compare"}:
            assert {"raw", "nbval-ignore-output"} <= tags(cell), cell["id"]
            assert following is not None, cell["id"]
            assert "verdict" in calls(following), cell["id"]
            assert not {"raw", "nbval-ignore-output"} & tags(following), following["id"]
            (output,) = following["outputs"]
            assert "".join(output["text"]).startswith("not contradicted here: "), following["id"]


@each
def test_a_hidden_answer_does_not_show_in_its_first_line(path):
    """JupyterLab shows the first line of a collapsed output."""
    for cell in code_cells(path):
        if "hide-output" in tags(cell) and cell["outputs"]:
            output = cell["outputs"][0]
            text = "".join(output.get("text") or output["data"]["text/plain"])
            assert not re.search(r"\d{2}|\[", text.split("\n")[0].replace("H200", "").replace("float16", "")), cell[
                "id"
            ]


@pytest.mark.always
def test_nothing_is_needed_before_it_is_taught():
    taught: set[str] = set()
    for path in NOTEBOOKS:
        about = json.loads(path.read_text())["metadata"]["course"]
        assert about["teaches"], path.name
        missing = set(about["needs"]) - taught
        assert not missing, f"{path.name} needs {missing}, which no earlier chapter teaches"
        again = set(about["teaches"]) & taught
        assert not again, f"{path.name} teaches {again} again"
        taught |= set(about["teaches"])


@pytest.mark.always
def test_nbval_collects_every_code_cell():
    """The number of tests that nbval sees is the number of code cells there are."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--nbval", *map(str, EVERY)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    collected = sum("::" in line for line in run.stdout.splitlines())
    assert collected == sum(len(code_cells(path)) for path in EVERY), run.stdout + run.stderr


def test_notebooks_that_run_side_by_side_do_not_share_tcp_ports(tmp_path):
    """As make runs nbval: of ports that are free when they are chosen, one may be taken when the kernel starts."""
    options = re.search(r"^NBVAL := \$\(PY\) (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    cell = nbformat.v4.new_code_cell(
        "from ipykernel.kernelapp import IPKernelApp\nIPKernelApp.instance().transport",
        execution_count=1,
        outputs=[nbformat.v4.new_output("execute_result", {"text/plain": "'ipc'"}, execution_count=1)],
    )
    path = tmp_path / "transport.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    run = subprocess.run([sys.executable, *options, path], cwd=ROOT, capture_output=True, text=True)
    assert "1 passed" in run.stdout, run.stdout + run.stderr


def less_digits(value: object) -> object:
    """Cells without the digits of their figures, which another processor may round otherwise."""
    if isinstance(value, float):
        return "a number"
    if isinstance(value, list):
        return [less_digits(one) for one in value]
    if isinstance(value, dict):
        # Plotly packs an array into text.
        return {key: len(one) if key == "bdata" else less_digits(one) for key, one in value.items()}
    return value


@pytest.mark.slow
@pytest.mark.alone
@each_path
def test_references_are_stable_to_the_byte(path, tmp_path):
    """Executing a notebook a second time changes no byte. In a copy, so that a failure leaves the references alone."""
    for folder in ("book", "labs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    copy = tmp_path / path.relative_to(ROOT)

    def changed() -> bool:
        """Whether another execution changes a byte."""
        before = copy.read_bytes()
        subprocess.run([sys.executable, ROOT / "book" / "references.py", copy], check=True)
        return copy.read_bytes() != before

    if changed():  # stored on another processor
        for old, new in zip(code_cells(path), code_cells(copy), strict=True):
            assert less_digits(new) == less_digits(old), f"{path.name}, cell {old['id']}"
        assert not changed()
