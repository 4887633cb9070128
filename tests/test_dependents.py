"""Which files use which, in a small repository for each way to use a file, and in this one for what must not be missed."""

import subprocess
from pathlib import Path

import pytest

from tests.dependents import Dependents, member

ROOT = Path(__file__).parents[1]
FILES = {
    "kernels/__init__.py": "from kernels.operation import operation\nfrom kernels.ops.softmax import softmax",
    "kernels/operation.py": "def operation(name): return operations()",
    "kernels/ops/__init__.py": "",
    "kernels/ops/softmax/__init__.py": "from kernels.ops.softmax import cuda",
    "kernels/ops/softmax/cuda.py": "SOURCE = 'softmax.cu'",
    "kernels/ops/softmax/softmax.cu": "",
    "kernels/ops/matmul/__init__.py": "",
    "kernels/cuda/__init__.py": "",
    "kernels/cuda/build.py": "",
    "kernels/cuda/include/header.h": "",
    "kernels/cuda/include/.clang-format": "",
    "kernels/grading/labs/reduction.py": "",
    "labs/reduction.ipynb": "",
    "book/results/h200/softmax.json": "",
    "tests/conftest.py": "",
    "tests/lens/conftest.py": "",
    "tests/lens/test_counts.py": "",
}


@pytest.fixture
def users(tmp_path):
    """users(file, source, of) tells how many steps the file, when it has that source, is from the one called `of`, or None."""

    def steps(file, source, of):
        files = {name: "{}" if name.endswith(".ipynb") else text for name, text in FILES.items()} | {file: source}
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text if text != "{}" else '{"cells": []}')
        return Dependents(tmp_path, files).steps(of).get(file)

    return steps


@pytest.mark.parametrize(
    ("source", "of", "steps"),
    [
        ("import kernels.cuda.build", "kernels/cuda/build.py", 1),
        ("import kernels.cuda.build", "kernels/cuda/__init__.py", 1),
        ("from kernels.cuda import build", "kernels/cuda/build.py", 1),
        ("def f():\n    from kernels.cuda.build import x", "kernels/cuda/build.py", 1),
        ("from kernels import softmax", "kernels/ops/softmax/cuda.py", 2),
        ("from kernels import softmax", "kernels/ops/softmax/softmax.cu", 3),
        ("from kernels import softmax", "kernels/ops/matmul/__init__.py", None),
        ("import kernels\ny = kernels.softmax(x)", "kernels/ops/softmax/__init__.py", 1),
        ("import kernels", "kernels/ops/softmax/__init__.py", None),
        ("import kernels\nop = kernels.operation('matmul')", "kernels/ops/matmul/__init__.py", 1),
        ("import kernels\nop = kernels.operation('matmul')", "kernels/ops/softmax/__init__.py", None),
        ("import kernels\nops = kernels.operations()", "kernels/ops/matmul/__init__.py", 1),
        ("import kernels\nop = kernels.operation(name)", "kernels/ops/matmul/__init__.py", 1),
        ("run(['python', '-m', 'kernels.cuda.build'])", "kernels/cuda/build.py", 1),
        ("import_module('kernels.cuda.build')", "kernels/cuda/build.py", 1),
        ("SOURCE = 'kernels/ops/softmax/softmax.cu'", "kernels/ops/softmax/softmax.cu", 1),
        ("FOLDER = ROOT / 'book' / 'results' / 'h200'", "book/results/h200/softmax.json", 1),
        ("from labs import labs\nlabs()", "kernels/grading/labs/reduction.py", 1),
        ("import kernels.cuda", "kernels/cuda/include/header.h", 2),
        ("import kernels.cuda", "kernels/cuda/include/.clang-format", None),
        ("x = 'kernels'", "kernels/__init__.py", None),
        ("", "tests/lens/conftest.py", 1),
        ("", "tests/conftest.py", None),
        ("not Python", "kernels/cuda/build.py", None),
    ],
)
def test_a_test_uses_a_file(users, source, of, steps):
    assert users("tests/lens/test_new.py", source, of) == steps


def test_a_notebook_uses_what_its_cells_import(users):
    cell = '{"cell_type": "code", "source": ["%load_ext kernels.cuda\\n", "!ls\\n", "from kernels import softmax"]}'
    notebook = f'{{"cells": [{cell}, {{"cell_type": "markdown", "source": []}}]}}'
    assert users("book/new.ipynb", notebook, "kernels/cuda/__init__.py") == 1
    assert users("book/new.ipynb", notebook, "kernels/ops/softmax/softmax.cu") == 3


def test_a_lab_uses_its_exercises(users):
    assert users("labs/reduction.ipynb", '{"cells": []}', "kernels/grading/labs/reduction.py") == 1


@pytest.mark.parametrize(
    ("path", "which"),
    [
        ("kernels/ops/softmax/softmax.cu", ("operation", "softmax")),
        ("kernels/ops/__init__.py", None),
        ("kernels/grading/labs/reduction.py", ("lab", "reduction")),
        ("kernels/grading/labs/detective/calls.py", ("lab", "detective")),
        ("kernels/grading/labs/__init__.py", None),
        ("tests/labs/mutants/reduction/wrong.py", ("lab", "reduction")),
        ("labs/solutions/reduction.ipynb", ("lab", "reduction")),
        ("labs/reduction.ipynb", ("lab", "reduction")),
        ("labs/generate.py", None),
        ("kernels/check.py", None),
    ],
)
def test_which_files_are_of_an_operation_or_a_lab(path, which):
    assert member(path) == which


@pytest.fixture(scope="module")
def here():
    if not (ROOT / ".git").exists():
        pytest.skip("a copy without its history, where nothing says what is tracked")
    return Dependents(ROOT, subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines())


@pytest.mark.parametrize(
    ("file", "users"),
    [
        ("kernels/check.py", "tests/test_check.py"),
        ("kernels/ops/layer_norm/layer_norm.cu", "tests/test_check.py"),
        ("kernels/ops/layer_norm/layer_norm.cu", "tests/lens/test_stored_counters.py"),
        ("kernels/ops/layer_norm/layer_norm.cu", "tests/test_resources.py"),
        ("kernels/ops/layer_norm/layer_norm.cu", "book/levels/cuda.ipynb"),
        ("kernels/cuda/cpu/runtime/warp.cpp", "tests/cuda/test_warp.py"),
        ("kernels/lens/cpu/races.cpp", "tests/lens/test_findings.py"),
        ("kernels/grading/labs/reduction.py", "labs/reduction.ipynb"),
        ("kernels/grading/labs/reduction.py", "tests/labs/test_labs.py"),
        ("tests/labs/mutants/reduction/wrong.py", "tests/labs/test_labs.py"),
        ("tests/cuda/corpus/reduce.cu", "tests/cuda/test_corpus.py"),
        ("tests/lens/bugs/bounds.cu", "tests/lens/test_findings.py"),
        ("kernels/worker/server.py", "tests/test_worker.py"),
        ("kernels/measure/verdict.py", "book/machine/roofline.ipynb"),
        ("book/levels/broken/cases.py", "book/levels/broken.ipynb"),
        ("book/references.py", "tests/test_notebooks.py"),
        ("book/_ext/measured.py", "tests/test_book.py"),
    ],
)
def test_what_must_not_be_missed(here, file, users):
    assert file in here.files, "renamed: the new name belongs here"
    assert users in here.steps(file)


def test_a_change_of_an_operation_leaves_most_tests_alone(here):
    tests = {file for file in here.files if Path(file).name.startswith("test_")}
    assert len(tests & here.steps("kernels/ops/layer_norm/native.py").keys()) < 0.5 * len(tests)
