"""The control of predictions and questions, as the book makes it from a notebook's HTML."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("jupyter_book", reason="the book's packages are not installed: pip install -e .[book]")
from bs4 import BeautifulSoup

PREDICT = Path(__file__).resolve().parents[1] / "book" / "_ext" / "predict.py"
SOURCE = """**Predict.** How many?

<details class="choice"><summary>A. $N^2$: <i>two</i>.</summary>

Not so.

</details>
<details class="choice right"><summary>B. \\(N\\).</summary>

Right.

</details>

<details><summary>Recall</summary>

It costs 3.

</details>
"""


@pytest.fixture(scope="module")
def control():
    spec = importlib.util.spec_from_file_location("predict", PREDICT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return BeautifulSoup(module.as_control(SOURCE + "\nBetween.\n\n" + SOURCE), "html.parser")


def test_the_choices_of_a_question_are_one_group(control):
    groups = control.select(".choices[role=group]")
    assert [len(group.select("details.choice")) for group in groups] == [2, 2]
    assert not [group for group in groups if "Recall" in group.text]


def test_right_and_wrong_are_said_in_words(control):
    assert [mark.text for mark in control.select(".choice .verdict")] == ["✗ wrong", "✓ right"] * 2
    assert all("right" in choice["class"] for choice in control.select(".choice:has(:-soup-contains('✓ right'))"))


def test_a_formula_in_a_summary_is_typeset(control):
    assert [maths.text for maths in control.select("summary .math")] == ["\\(N^2\\)", "\\(N\\)"] * 2
