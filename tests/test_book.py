"""The built pages load nothing from outside, and numbers in them come from `book/results`."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jupyter_book", reason="the book's packages are not installed: pip install -e .[book]")
from bs4 import BeautifulSoup

from kernels.measure import Results

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = re.compile(r"^\s*(https?:|wss?:|//)", re.IGNORECASE)
CSS_LOAD = re.compile(r"""(?:@import\s+|url\(\s*)["']?\s*(?:https?:)?//[^"')\s]*""", re.IGNORECASE)
LOADING = {"src", "srcset", "data", "poster", "background"}  # attributes that load on any element


def outside_loads(page):
    """What a page's HTML loads from other hosts. Links that a reader may follow are none."""
    soup = BeautifulSoup(page, "html.parser")
    loads = [tag[name] for tag in soup.find_all() for name in LOADING & tag.attrs.keys() if OUTSIDE.match(tag[name])]
    loads += [tag["href"] for tag in soup.select("link[href], use[href], image[href]") if OUTSIDE.match(tag["href"])]
    styles = [tag.string or "" for tag in soup.find_all("style")] + [tag["style"] for tag in soup.select("[style]")]
    return loads + [load for style in styles for load in CSS_LOAD.findall(style)]


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    output = tmp_path_factory.mktemp("book")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", ROOT, "--path-output", output]
    build = subprocess.run([*command, "-W", "-n", "--keep-going"], capture_output=True, text=True)
    assert build.returncode == 0, build.stdout + build.stderr
    return output / "_build" / "html"


def test_pages_load_nothing_from_outside(html):
    pages = list(html.rglob("*.html"))
    assert pages
    assert {str(page): loads for page in pages if (loads := outside_loads(page.read_text("utf-8")))} == {}


def test_styles_load_nothing_from_outside(html):
    sheets = list(html.rglob("*.css"))
    assert sheets
    assert {str(sheet): loads for sheet in sheets if (loads := CSS_LOAD.findall(sheet.read_text("utf-8")))} == {}


def test_pages_with_figures_load_plotly(html):
    for page in html.rglob("*.html"):
        text = page.read_text("utf-8")
        assert ('class="plotly-figure"' in text) == ("plotly.min.js" in text), page
    assert (html / "_static" / "plotly.min.js").stat().st_size > 1e6


@pytest.mark.parametrize(
    "page",
    [
        "<script src='https://example.org/x.js'></script>",
        "<img src='//example.org/x.png'>",
        "<link rel='stylesheet' href='http://example.org/x.css'>",
        "<style>@import 'https://example.org/x.css';</style>",
        "<p style='background: url(https://example.org/x.png)'></p>",
        "<iframe src='https://example.org'></iframe>",
    ],
)
def test_an_outside_load_is_seen(page):
    assert outside_loads(page)


def test_a_link_is_not_a_load():
    assert outside_loads("<a href='https://example.org'>x</a><img src='data:image/png;base64,'>") == []


def test_every_stored_figure_has_a_text_alternative():
    for notebook in (ROOT / "book").rglob("*.ipynb"):
        for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
            for output in cell.get("outputs", ()):
                data = output.get("data", {})
                if "application/vnd.plotly.v1+json" in data:
                    alt = "".join(data.get("text/plain", ""))
                    said = len(alt) > 20 and not alt.startswith("Figure(")
                    assert said, f"{notebook.name}, cell {cell['id']}: {alt}"


def extension(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "book" / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def code(source, *tags, outputs=()):
    return {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": source, "outputs": list(outputs)}


def test_folded_code_in_a_row_is_one_fold():
    cells = [
        code("a = 1", "hide-input"),
        code("assert a", "remove-cell"),
        code("a", "hide-input", outputs=["1"]),
        code("b = 2", "hide-input"),
        code("b", outputs=["2"]),
    ]
    joined = extension("folds").joined(cells)
    assert [cell["source"] for cell in joined] == ["a = 1\n\na", "b = 2", "b"]
    assert [cell["outputs"] for cell in joined] == [["1"], [], ["2"]]


def test_a_figure_may_hold_any_text():
    figure = {"layout": {"title": "</script><b>"}}
    soup = BeautifulSoup(extension("plotly_figures").figure_html(figure, 'a < b, "so"'), "html.parser")
    assert json.loads(soup.find("script").string) == figure
    assert soup.find(role="img")["aria-label"] == soup.find(role="img").text == 'a < b, "so"'


# The extension that puts measured numbers into pages


@pytest.fixture(scope="module")
def measured():
    return extension("measured")


def row(contestant, kind, median_ms, gbps=None, shape=(4, 8), level=None, **fields):
    return {
        "operation": "layer_norm", "direction": "forward", "contestant": contestant, "kind": kind, "level": level,
        "shape": list(shape), "dtype": "bfloat16", "median_ms": median_ms, "p20_ms": median_ms, "p80_ms": median_ms,
        "gbps": gbps, "ceiling_fraction": None if kind == "copy" else 0.5, "max_error_ratio": None,
    } | fields  # fmt: skip


@pytest.fixture
def results():
    rows = [row("copy", "copy", 0.1, 4000.0), row("torch", "peer", 0.4, 1000.0), row("triton", "variant", 0.2, 2000.0)]
    rows.append(row("torch", "peer", 0.8, 1234.5, shape=(16, 32)))
    machine = {"gpu": "A GPU", "versions": {"torch": "2.0"}}
    return {"agpu": {"layer_norm": Results(machine, {"copy_gbps": 4000.0}, rows)}}


@pytest.fixture
def causal():
    """Causal attention beside full attention of the same shape, and bound by the matrix rate."""
    rates = {"operation": "attention", "gbps": None, "ceiling_fraction": None}
    rows = [
        row(name, kind, ms * factor, tflops=tflops, matrix_fraction=tflops / 800, params=params, **rates)
        for params, factor in (({}, 1.0), ({"causal": True}, 0.6))
        for name, kind, ms, tflops in (("torch", "peer", 1.0, 400.0), ("triton", "variant", 0.8, 500.0))
    ]
    return Results({"gpu": "A GPU"}, {}, rows)


def test_a_number_is_picked_by_its_row(measured, results):
    number = measured.Measured(results)
    assert number("gbps", contestant="torch", shape=[16, 32]) == "1,234 GB/s"
    assert number("median_ms", contestant="triton") == "0.2 ms"
    assert number("ceiling_fraction", contestant="triton", gpu="agpu") == "50%"


def test_a_number_must_fit_one_row(measured, results):
    with pytest.raises(LookupError, match="fits 2 rows"):
        measured.Measured(results)("gbps", contestant="torch")
    with pytest.raises(LookupError, match="fits 0 rows"):
        measured.Measured(results)("gbps", contestant="nobody")


def test_a_number_is_picked_by_its_params(measured, causal):
    number = measured.Measured({"agpu": {"attention": causal}})
    assert number("tflops", contestant="triton", params={}) == "500 TFLOP/s"
    assert number("median_ms", contestant="torch", params={}) == "1 ms"
    assert number("median_ms", contestant="torch", params={"causal": True}) == "0.6 ms"
    with pytest.raises(LookupError, match="fits 2 rows"):
        number("median_ms", contestant="torch")


def test_the_table_keeps_params_apart_and_shows_the_unit_of_a_row(measured, causal):
    heading, *lines = cells(measured.whole_table(causal.rows))
    columns = [
        heading.index(name) for name in ("Contestant", "With", "TFLOP/s", "Of matrix rate", "Of best peer", "Reached")
    ]
    assert [[line[column] for column in columns] for line in lines] == [
        ["triton", "–", "500", "0.62", "1.25", "yes"],
        ["torch", "–", "400", "0.50", "1.00", "–"],
        ["triton", "causal=True", "500", "0.62", "1.25", "yes"],
        ["torch", "causal=True", "400", "0.50", "1.00", "–"],
    ]


def test_without_results_a_number_says_so(measured):
    assert measured.Measured({})("gbps", contestant="torch") == "not measured yet"


def cells(table):
    return [[entry.astext() for entry in line.children] for line in table.findall(lambda node: node.tagname == "row")]


def test_the_page_of_results_names_the_machine_and_has_every_row(measured, results):
    results["agpu"]["layer_norm"].machine.update({"date": "2026-01-02", "commit": "abc"})
    section = measured.section(results["agpu"])
    assert all(expected in section.astext() for expected in ("A GPU", "torch 2.0", "4,000", "2026-01-02", "abc"))
    heading, *lines = cells(next(node for node in section.children if "sortable" in node.get("classes", ())))
    assert len({len(line) for line in [heading, *lines]}) == 1
    assert [line[:8] for line in lines] == [
        ["copy", "copy", "layer_norm", "forward", "4 × 8", "bfloat16", "–", "0.1000"],
        ["triton", "variant", "layer_norm", "forward", "4 × 8", "bfloat16", "yes", "0.2000"],
        ["torch", "peer", "layer_norm", "forward", "4 × 8", "bfloat16", "–", "0.4000"],
        ["torch", "peer", "layer_norm", "forward", "16 × 32", "bfloat16", "–", "0.8000"],
    ]
    assert not {"With", "TFLOP/s"} & set(heading)


def test_the_page_of_results_says_of_each_operation_when_it_was_measured(measured, results, causal):
    causal.machine.update({"date": "2026-03-04", "commit": "def"})
    section = measured.section(results["agpu"] | {"attention": causal})
    lines = cells(next(node for node in section.children if "measured-on" in node.get("classes", ())))
    assert [line[:3] for line in lines[1:]] == [["layer_norm", "None", "None"], ["attention", "2026-03-04", "def"]]


def test_the_page_of_results_compares_with_the_best_peer_and_with_torchs_host_time(measured, results):
    rows = results["agpu"]["layer_norm"].rows[:3]
    rows += [row("liger", "peer", 0.3, 1500.0)]
    for one, host in zip(rows, (None, 4.0, 6.0, None), strict=True):
        one |= {"host_us": host}
    backward = [one | {"direction": "backward", "median_ms": 1.0, "host_us": None} for one in rows]
    heading, *lines = cells(measured.whole_table(rows + backward))
    columns = [heading.index(name) for name in ("Contestant", "Of best peer", "Host, µs", "Host, of torch’s")]
    assert [[line[column] for column in columns] for line in lines] == [
        ["copy", "", "", ""],
        ["triton", "1.50", "6.0", "1.50"],
        ["liger", "1.00", "", ""],
        ["torch", "0.75", "4.0", "1.00"],
        ["copy", "", "", ""],
        ["torch", "1.00", "", ""],
        ["triton", "1.00", "", ""],
        ["liger", "1.00", "", ""],
    ]


def test_only_pages_with_sortable_tables_load_what_sorts(html):
    loading = {page.name for page in html.rglob("*.html") if "sortable.js" in page.read_text("utf-8")}
    assert loading == {"results.html", "results_h100.html", "systems.html", "claims.html"}
    assert (html / "_static" / "dt_bundle.js").stat().st_size > 1e5


def test_each_gpu_on_which_something_was_measured_has_a_page():
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "book").glob("results*.md"))
    for family, directive in (("operations", "results"), ("drawn", "drawn")):
        gpus = {path.stem for path in (ROOT / "book" / "results" / family).glob("*/*.json")}
        assert gpus == set(re.findall(rf"^```{{{directive}}} (.+)$", pages, re.MULTILINE))


def test_results_are_found_by_gpu_and_operation(measured, results, causal, tmp_path):
    for gpu, operation in (("h200", "layer_norm"), ("h200", "attention"), ("t4", "attention")):
        causal.save(tmp_path / operation / f"{gpu}.json")
    assert {gpu: list(found) for gpu, found in measured.load(tmp_path).items()} == {
        "h200": ["attention", "layer_norm"],
        "t4": ["attention"],
    }
    assert measured.load(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "book").rglob("*.ipynb")) + sorted((ROOT / "labs").glob("*.ipynb")),
    ids=lambda path: path.stem,
)
def test_colours_leave_the_source_as_it_is(path):
    lexer = extension("highlighting").CellLexer()
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            assert "".join(token for _, _, token in lexer.get_tokens_unprocessed(source)) == source, cell["id"]


@pytest.mark.parametrize("language", ["cuda", "triton", "torch"])
def test_a_submission_has_the_colours_of_its_language(language):
    lexer = extension("highlighting").CellLexer()
    kinds = {value: str(kind) for _, kind, value in lexer.get_tokens_unprocessed(f"%%{language} map\nreturn 1\n")}
    assert kinds["return"].startswith("Token.Keyword")
