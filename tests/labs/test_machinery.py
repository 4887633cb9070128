"""From the solved notebook to the learner's copy, and from there to what is solved."""

import json
import shutil
from types import SimpleNamespace

import nbformat
import pytest
import working_copies
from generate import learners
from nbformat.sign import NotebookNotary
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from typer.testing import CliRunner

from kernels.__main__ import app
from kernels.grading import Report, check, progress, submissions
from kernels.grading.exercise import Call, Exercise, Property
from kernels.grading.judging import success
from kernels.grading.judging.report import Verdict
from kernels.grading.labs import exercise, labs
from kernels.grading.notebooks import read_submissions
from kernels.grading.status_line import status_line

ROOT = working_copies.ROOT
SOLVED = ROOT / "labs" / "solutions"


def lab(source: str) -> nbformat.NotebookNode:
    return learners(
        new_notebook(cells=[new_code_cell(source), new_markdown_cell("So.", metadata={"tags": ["solution"]})])
    )


def test_a_solution_gives_way_and_is_folded():
    made = lab("%%cuda f\n{\n    // BEGIN SOLUTION\n    a;\n        b;\n    // END SOLUTION\n}")
    assert made.cells[0].source == "%%cuda f\n{\n    // your code here\n}"
    assert (
        made.cells[1].source == "<details><summary>Solution</summary>\n\n```cpp\na;\n    b;\n```\n\nSo.\n\n</details>"
    )


def test_what_stands_in_its_place_may_be_code():
    made = lab(
        "%%torch f\ndef f():\n    # BEGIN SOLUTION: pass\n    a\n    # END SOLUTION\n\n# BEGIN SOLUTION\nb\n# END SOLUTION"
    )
    assert made.cells[0].source == "%%torch f\ndef f():\n    # your code here\n    pass\n\n# your code here"
    assert made.cells[1].source.count("```python") == 2


def test_broken_lines_may_stand_in_its_place():
    made = lab("%%cuda f\n  // BEGIN SOLUTION\n  a;\n  // INSTEAD\n  // if (b)\n  //     c;\n  // END SOLUTION")
    assert made.cells[0].source == "%%cuda f\n  if (b)\n      c;"
    assert "a;" in made.cells[1].source
    assert "b" not in made.cells[1].source.replace("<summary>", "")


def test_a_solution_that_nothing_explains_is_an_error():
    with pytest.raises(ValueError, match="solution"):
        learners(new_notebook(cells=[new_code_cell("%%cuda f\n// BEGIN SOLUTION\na\n// END SOLUTION")]))


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A small repository."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    for name, text in (("book/machine/a.ipynb", "1"), ("labs/b.ipynb", "2"), ("labs/solutions/b.ipynb", "3")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, text)
    (tmp_path / "book/intro.md").write_text("words")
    (tmp_path / "labs/generate.py").write_text("")
    return tmp_path


def write(path, text, output=""):
    cell = new_code_cell(text, outputs=[nbformat.v4.new_output("stream", text=output)] if output else [])
    nbformat.write(new_notebook(cells=[cell]), path)


def sources(path):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def test_copies_have_the_places_of_their_originals(course):
    assert working_copies.refresh(course) == []
    copied = sorted(str(path.relative_to(course / "work")) for path in (course / "work").rglob("*") if path.is_file())
    assert copied == ["book/intro.md", "book/machine/a.ipynb", "copies.json", "labs/b.ipynb"]


def test_copies_are_trusted_so_that_stored_outputs_keep_their_styles(course):
    working_copies.refresh(course)
    copy, original = (
        nbformat.read(course / name, as_version=4) for name in ("work/labs/b.ipynb", "labs/solutions/b.ipynb")
    )
    assert NotebookNotary().check_signature(copy)
    assert not NotebookNotary().check_signature(original)


def test_a_copy_that_was_only_run_follows_its_original(course):
    working_copies.refresh(course)
    write(course / "work/labs/b.ipynb", "2", output="two")
    write(course / "labs/b.ipynb", "20")
    assert working_copies.refresh(course) == []
    assert sources(course / "work/labs/b.ipynb") == ["20"]


def test_an_edited_copy_is_never_overwritten_and_a_newer_original_is_told_of(course):
    working_copies.refresh(course)
    write(course / "work/labs/b.ipynb", "mine")
    assert working_copies.refresh(course) == []
    write(course / "labs/b.ipynb", "20")
    for _ in range(2):
        assert [str(path) for path in working_copies.refresh(course)] == ["labs/b.ipynb"]
        assert sources(course / "work/labs/b.ipynb") == ["mine"]
    (course / "work/labs/b.ipynb").unlink()
    assert working_copies.refresh(course) == []
    assert sources(course / "work/labs/b.ipynb") == ["20"]


def test_without_its_record_a_copy_is_taken_for_edited(course):
    working_copies.refresh(course)
    write(course / "work/labs/b.ipynb", "mine")
    (course / "work/copies.json").unlink()
    working_copies.refresh(course)
    assert sources(course / "work/labs/b.ipynb") == ["mine"]


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Working copies of the labs, elsewhere."""
    monkeypatch.setattr(progress, "WORK", tmp_path)
    monkeypatch.setattr(progress, "_FILE", tmp_path / "progress.json")
    shutil.copytree(SOLVED, tmp_path / "labs")
    return tmp_path


def run(*words):
    return CliRunner(env={"COLUMNS": "400"}).invoke(app, ["grade", *map(str, words)])  # so that no path is broken


def test_grade_reads_the_notebooks_and_keeps_what_is_solved(work):
    folder = ("--folder", work / "labs")
    ran = run("coalescing", *folder)
    assert (ran.exit_code, progress.solved()) == (0, {"permuted_copy"}), ran.output
    assert "solved" in run().output

    notebook = work / "labs" / "coalescing.ipynb"
    notebook.write_text(notebook.read_text().replace("int d = i % D;", "int d = i % S;"))
    ran = run("coalescing", *folder)
    assert (ran.exit_code, progress.solved()) == (1, {"permuted_copy"})  # it was solved
    assert "✗ it stays inside its arrays" in ran.output

    notebook.unlink()
    ran = run("coalescing", *folder)
    assert ran.exit_code == 1
    assert "make lab" in ran.output

    shutil.rmtree(work / "labs")
    ran = run("--all", *folder)
    assert (ran.exit_code, "make lab" in ran.output) == (2, True), ran.output


def checked(monkeypatch, *states):
    """The report of a check that finds these states."""
    report = Report("permuted_copy", tuple(Verdict(f"p{n}", state) for n, state in enumerate(states)))
    monkeypatch.setattr(submissions, "_submitted", {"permuted_copy": ""})
    monkeypatch.setattr(submissions.process, "ask", lambda *_: report)
    assert check("permuted_copy") == report


def test_a_check_in_a_working_copy_says_how_many_are_solved(work, monkeypatch, capsys):
    for place, state, told in ((SOLVED, "held", ""), (work, "broken", "0 of "), (work, "held", "1 of ")):
        monkeypatch.chdir(place)
        checked(monkeypatch, state)
        assert told in capsys.readouterr().out
    assert progress.solved() == {"permuted_copy"}


def test_the_best_attempt_is_kept(work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    for states, best, said in (
        (("held", "broken", "waits"), (1, 3), ""),
        (("held", "held", "broken"), (2, 3), ""),
        (("broken", "waits", "waits"), (2, 3), "Your best attempt here: 2 of 3 hold."),
        (("held", "held", "open"), (3, 3), ""),
        (("held", "held", "broken"), (3, 3), "You solved this one before."),
    ):
        checked(monkeypatch, *states)
        assert progress.best() == {"permuted_copy": best}
        assert capsys.readouterr().out.partition(".")[2].strip() == said


def test_what_was_solved_before_there_were_scores_is_still_solved(work):
    (work / "progress.json").write_text('["permuted_copy"]')
    assert progress.solved() == {"permuted_copy"}
    assert "solved" in run().output


def test_labs_come_in_reading_order():
    assert list(labs())[:5] == ["start", "first_steps", "guards", "roofline", "coalescing"]


def test_a_solution_stands_beside_ours_and_what_comes_next_is_named():
    copy = submissions.process.ask(
        "grade", "permuted_copy", read_submissions(SOLVED / "coalescing.ipynb")["permuted_copy"]
    )
    after = list(labs())[list(labs()).index("coalescing") + 1]
    assert copy.following == f"{after}.ipynb"
    assert f'<a href="{after}.ipynb">{after}</a>' in copy._repr_html_()
    assert ("sectors read", 512, 512) in copy.counters
    assert "sectors read" in repr(copy)
    every = [one.name for exercises in labs().values() for one in exercises]
    assert [success.following(name) for name in every][-1] == ""
    assert success.following(every[0]) == "first_steps.ipynb"
    assert success.following("map") == "zip"


def test_a_drill_is_checked_as_soon_as_its_cell_is_run_and_not_counted(monkeypatch, capsys):
    registered, shown = {}, []
    shell = SimpleNamespace(register_magic_function=lambda take, kind, name: registered.update({name: take}))
    monkeypatch.setattr("IPython.display.display", shown.append)
    submissions.load_ipython_extension(shell)
    registered["cuda"]("map", read_submissions(SOLVED / "first_steps.ipynb")["map"])
    registered["cuda"]("map", "__global__ void map(float* y, float* x) { y[0] = x[0] + 10; }")
    assert [(one.passed, one.counters, one.following) for one in shown] == [(True, (), "zip"), (False, (), "")]
    registered["cuda"]("permuted_copy", read_submissions(SOLVED / "coalescing.ipynb")["permuted_copy"])
    assert len(shown) == 2
    assert "Now check it" in capsys.readouterr().out


def test_a_status_line_gives_way_to_what_comes_next(monkeypatch):
    assert displayed(monkeypatch) == ""
    monkeypatch.setenv("JPY_SESSION_NAME", "labs/coalescing.ipynb")
    # Each line takes the place of the one before, and the last is cleared.
    assert displayed(monkeypatch) == "[clear]f: compiling …\n[clear]f: case 1 of 2 …\n[clear]"


def displayed(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.clear_output", lambda wait: shown.append("[clear]"))
    monkeypatch.setattr("builtins.print", lambda said, flush: shown.append(f"{said}\n"))
    with status_line("f") as say:
        say("compiling")
        say("case 1 of 2")
    return "".join(shown)


def test_what_tests_run_is_no_progress(work):
    assert run("coalescing", "--folder", SOLVED).exit_code == 0
    assert progress.solved() == set()


def test_an_unknown_lab_is_a_usage_error():
    ran = run("nonsense")
    assert ran.exit_code == 2
    assert "coalescing" in ran.output


def test_of_several_cells_the_last_counts(tmp_path):
    cells = ["%%cuda f\nfirst", "f", "%%cuda  f \nsecond", "%%triton g\n", "# %%cuda f\nno", "%%cuda\nno"]
    nbformat.write(
        new_notebook(cells=[new_markdown_cell("%%cuda f\nno"), *map(new_code_cell, cells)]), tmp_path / "a.ipynb"
    )
    assert read_submissions(tmp_path / "a.ipynb") == {"f": "second", "g": ""}


def test_a_check_before_the_cell_says_what_to_do(monkeypatch):
    monkeypatch.setattr(submissions, "_submitted", {})
    assert "%%cuda permuted_copy" in check("permuted_copy").refused


def test_wrong_names_are_errors():
    with pytest.raises(ValueError, match="permuted_copy"):
        check("nonsense")
    with pytest.raises(ValueError, match="%%cuda, got %%triton"):
        submissions.submit("triton", "permuted_copy", "")


def test_an_exercise_that_contradicts_itself_is_an_error():
    with pytest.raises(ValueError, match="several lines"):
        Exercise("f", "cuda", Call, {}, (), prelude="a\nb")
    twice = Property("p", lambda trials: None, "runs")
    with pytest.raises(ValueError, match="once"):
        Exercise("f", "cuda", Call, {}, (twice, twice))
    with pytest.raises(ValueError, match="drawn: of f: got 'odd' with \\['M'\\]"):
        Exercise("f", "cuda", Call, {"odd": {"N": 5}}, (), drawn={"odd": {"M": range(2, 9)}})
    with pytest.raises(ValueError, match="nonsense"):
        exercise("nonsense")


def test_a_report_survives_json_and_escapes_what_it_shows():
    report = Report("f", refused="<b>", printed="&")
    assert Report.from_dict(json.loads(json.dumps({**vars(report)}))) == report
    assert "&lt;b&gt;" in report._repr_html_()
    assert not report.passed
    assert not Report("f").passed
