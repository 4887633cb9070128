"""Make the labs that learners get from the solved ones: labs/solutions/NAME.ipynb → labs/NAME.ipynb.

    python labs/generate.py [NAME...]

In a submission, a cell that begins with `%%cuda NAME` or its kin, the lines
between `BEGIN SOLUTION` and `END SOLUTION` give way to a comment, and to the
code that stands behind `BEGIN SOLUTION:`, if there is any; or to the lines
after `INSTEAD`, which stand there as comments, such as broken ones that are to
be fixed. A text cell tagged `solution` explains the submissions since the
last such cell; it is folded together with the lines that were taken out. Then
the lab is executed, unsolved, to store its outputs.
"""

import copy
import re
import sys
from pathlib import Path

import nbformat

HERE = Path(__file__).parent
SOLUTION = re.compile(
    r"^(?P<indent>[ \t]*)(?P<mark>//|#) BEGIN SOLUTION(?:: (?P<stub>[^\n]*))?\n(?P<lines>.*?)"
    r"(?:^[ \t]*(?://|#) INSTEAD\n(?P<instead>.*?))?^[ \t]*(?://|#) END SOLUTION$",
    re.DOTALL | re.MULTILINE,
)


def learners(solved: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The lab without its solution, not executed."""
    lab = copy.deepcopy(solved)
    taken: list[str] = []
    for cell in lab.cells:
        # The learner's lab lies one folder further up.
        cell.source = cell.source.replace("](../", "](")
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            taken += [
                f"```{_language(cell.source)}\n{_plain(one)}\n```"
                for one in SOLUTION.finditer(cell.source)
            ]
            cell.source = SOLUTION.sub(_stub, cell.source)
        elif "solution" in cell.metadata.get("tags", []):
            parts = [
                "<details><summary>Solution</summary>",
                *taken,
                cell.source,
                "</details>",
            ]
            cell.source, taken = "\n\n".join(parts), []
    if taken:
        raise ValueError(
            "a submission is followed by no text cell tagged `solution`"
        )
    return lab


def _language(source: str) -> str:
    return "cpp" if source.startswith("%%cuda") else "python"


def _stub(found: re.Match) -> str:
    indent, mark, stub = found["indent"], found["mark"], found["stub"]
    if found["instead"] is not None:
        lines = found["instead"].rstrip("\n")
        return re.sub(
            rf"^([ \t]*){mark} ?", r"\1", lines, flags=re.MULTILINE
        )
    return f"{indent}{mark} your code here" + (
        f"\n{indent}{stub}" if stub else ""
    )


def _plain(found: re.Match) -> str:
    """The lines of a solution without the indentation of its markers."""
    return re.sub(
        rf"^{found['indent']}", "", found["lines"], flags=re.MULTILINE
    ).rstrip()


def main(names: list[str]) -> None:
    sys.path.insert(0, str(HERE.parent / "book"))
    from references import execute

    for path in sorted((HERE / "solutions").glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        nbformat.write(
            learners(nbformat.read(path, as_version=4)), HERE / path.name
        )
        execute(HERE / path.name)
        print(HERE / path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
