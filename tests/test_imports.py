"""Imports go one way: a part of the package imports itself and what lies below it, and no two files import each other in a
circle. Imports inside functions count, those for type checkers alone do not.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.always
# From the lowest up; parts of one layer do not import each other. A part is a file or a folder of kernels/.
LAYERS = (
    ("hardware", "narrow"),
    (
        "activations",
        "arguments",
        "call",
        "case",
        "claims",
        "figures",
        "layouts",
        "listing",
        "machine",
        "page_colors",
        "random",
        "signature",
        "tolerance",
        "vectors",
        "watch",
        "worker",
    ),
    ("replay", "row_cases", "row_parts", "rules", "system", "unsupported"),
    ("operation",),
    ("cuda", "triton", "records", "registration"),
    ("levels", "rung"),
    ("wrong",),
    ("ops", "optimizers"),
    ("case_selection", "check", "doctor", "masks", "memory", "modules", "moe", "serving", "shapes", "validation"),
    ("distributed", "lens", "models", "precision"),
    ("measure",),
    ("claims_of_others",),
    ("diagrams", "grading", "systems"),
    ("__init__",),
    ("__main__",),
)
LAYER = {part: number for number, parts in enumerate(LAYERS) for part in parts}


def modules(root: Path) -> dict[str, Path]:
    """The package's files by the names of their modules."""
    paths = sorted((root / "kernels").rglob("*.py"))
    return {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """All imports but those under `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        yield from statements(child)


def imports(root: Path) -> Iterator[tuple[str, str, str]]:
    """(module, a module that it imports, the line that does so) in the package below a folder."""
    known = modules(root)
    for name, path in known.items():
        for statement in statements(ast.parse(path.read_text())):
            if isinstance(statement, ast.Import):
                targets = [alias.name for alias in statement.names]
            else:
                assert not statement.level, f"{path}:{statement.lineno}: imports are written out from `kernels` on"
                whole = [f"{statement.module}.{alias.name}" for alias in statement.names]
                targets = [one if one in known else statement.module for one in whole]
            line = f"{path.relative_to(root)}:{statement.lineno}: {ast.unparse(statement)}"
            yield from ((name, target, line) for target in targets if target in known and target != name)


def part(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def wrong(root: Path) -> list[str]:
    """The lines that import upwards or sideways, and the first circle of files."""
    found, graph = [], {}
    for name, target, line in imports(root):
        own, other = part(name), part(target)
        if own != other and LAYER[own] <= LAYER[other]:
            found.append(f"{line}\n  {own} lies below {other} or beside it: see LAYERS")
        graph.setdefault(name, set()).add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append("a circle, each imported by the next: " + " → ".join(error.args[1]))
    return found


def test_imports_go_one_way():
    assert not (lines := wrong(ROOT)), "\n".join(lines)


def test_every_part_has_a_layer():
    parts = {part(module) for module in modules(ROOT)}
    assert parts == set(LAYER), f"LAYERS in this file differ from the folder in {', '.join(sorted(parts ^ set(LAYER)))}"


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("machine.py", "from kernels import check", "kernels/machine.py:1: from kernels import check"),
        ("cuda/kernel.py", "def f():\n    import kernels.lens.trace", "cuda/kernel.py:2: import kernels.lens.trace"),
        ("triton/launch.py", "from kernels.cuda.kernel import Kernel", "triton lies below cuda or beside it"),
        ("lens/trace.py", "from kernels.lens import read", "a circle, each imported by the next: kernels.lens"),
        ("check.py", "import kernels", "check lies below __init__"),
        ("machine.py", "if TYPE_CHECKING:\n    from kernels import check", None),
        ("lens/trace.py", "from kernels import check", None),
    ],
)
def test_an_import_that_goes_up_is_seen(tmp_path, path, text, said):
    files = {"__init__.py": "", "machine.py": "", "check.py": "from kernels.cuda import kernel", "cuda/kernel.py": ""}
    files |= {"triton/launch.py": "", "lens/trace.py": "", "lens/read.py": "from kernels.lens import trace"}
    for name, content in (files | {path: text}).items():
        (tmp_path / "kernels" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "kernels" / name).write_text(content)
    lines = wrong(tmp_path)
    assert lines == [] if said is None else said in "\n".join(lines)
