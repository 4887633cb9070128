"""Which files of the repository use a given one, directly or through others, read from their source without running it.

A file uses what it imports, and what it names: another file by its name, as `"layer_norm.cu"`, a module in a string, as
`"kernels.worker.server"`, operations and labs by the calls that find them, as `operation("layer_norm")` and `operations()`.
What no file names, such as a header, is used by the Python files beside it or in the nearest folder above. A folder without
Python, such as `book/results`, is named as a whole.

Two things are left out on purpose. What every test meets (EVERYWHERE) makes no test more likely to fail than another. And
`from kernels import layer_norm` leads to the module that defines `layer_norm`, not to everything that the package exports.
"""

import ast
import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath

PACKAGE = "kernels/__init__.py"
EVERYWHERE = {PACKAGE, "tests/conftest.py", "tests/share.py", "tests/dependents.py", "tests/budget.py"}
EVERYWHERE |= {"Makefile", "constraints.txt", "pyproject.toml"}
SEARCHED = ("book", "book/_ext", "labs")  # for imports, besides the folders that a file is in

# One folder or file each, found by looking what is there: no file imports them by name.
_MEMBERS = {
    "operation": re.compile(r"kernels/ops/(\w+)/"),
    "lab": re.compile(
        r"(?:kernels/grading/labs|tests/labs/mutants|labs|labs/solutions)/(\w+)(?:\.py|\.ipynb|/.*\.py)$"
    ),
}
_FINDERS = {"operation": "operation", "operations": "operation", "labs": "lab", "exercise": "lab"}
_DEFINING = {"kernels/operation.py", "kernels/grading/labs/__init__.py"}  # of the finders, which look and use nothing
_STARTED = re.compile(r"\.ipynb$|^kernels/|(^|/)(test_\w+|conftest)\.py$")  # what nothing needs to import
_READING = {"jupyter-book": re.compile(r"_(config|toc)\.yml|book/(_ext|_static)/|book/.*\.md")}  # what a command reads
_SCRIPTS = {"labs/generate.py", "labs/working_copies.py"}


def member(path: str) -> tuple[str, str] | None:
    """("operation", "layer_norm") for a file of that operation, ("lab", its name) for one of a lab, else None."""
    for kind, pattern in _MEMBERS.items():
        if (found := pattern.match(path)) and not found[1].startswith("__") and path not in _SCRIPTS:
            return kind, found[1]
    return None


class Dependents:
    """The files of a repository and what uses them.

    Args:
        root: of the repository.
        files: relative to it, with slashes. Some may be gone.
    """

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        self.root, self.files = root, set(files)
        sources = {file for file in self.files if file.endswith((".py", ".ipynb")) and (root / file).exists()}
        folders = {folder for file in sources for folder in PurePosixPath(file).parents}
        self._named: dict[str, set[str]] = defaultdict(set)
        self.members: dict[tuple[str, str], set[str]] = defaultdict(set)
        for file in self.files:
            path = PurePosixPath(file)
            if path.name != "__init__.py":
                self._named[path.name].add(file)
            if path.parent not in folders:
                self._named[path.parent.name].add(file)
            if which := member(file):
                self.members[which].add(file)
        self._exports: dict[str, str] = {}
        if PACKAGE in sources:
            imports = self._imports(PACKAGE, self._tree(PACKAGE))
            for name, used in imports:
                self._exports.setdefault(name, used)
        self._used_by: dict[str, set[str]] = defaultdict(set)
        for file in sources:
            for used in self._uses(file) - {file} - EVERYWHERE:
                self._used_by[used].add(file)
        for file in self.files - EVERYWHERE:
            if not self._used_by[file] and not (file in sources and _STARTED.search(file)) and "/." not in f"/{file}":
                self._used_by[file] = self._beside(file, sources) - {file}

    def steps(self, file: str) -> dict[str, int]:
        """The files that use `file`, and how many steps away each is; itself, at 0, among them."""
        found, waiting = {file: 0}, deque([file])
        while waiting:
            one = waiting.popleft()
            for user in self._used_by[one] - found.keys():
                found[user] = found[one] + 1
                waiting.append(user)
        return found

    def _uses(self, file: str) -> set[str]:
        tree = self._tree(file)
        used = {path for _, path in self._imports(file, tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                used |= self._named_in(node.value, file)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "kernels":
                used |= {path for _, path in self._import_from("kernels", node.attr, file)}
            elif isinstance(node, ast.List):
                for option, module in pairwise(getattr(one, "value", None) for one in node.elts):
                    if option == "-m" and isinstance(module, str):
                        used |= set(self._module(f"{module}.__main__", file)) | set(self._module(module, file))
            elif isinstance(node, ast.Call) and file not in _DEFINING:
                used |= self._found_by(node)
        if (which := member(file)) and which[0] == "lab":
            used |= {one for one in self.members[which] if one.startswith("kernels/")}
        return used | {f"{folder}/conftest.py" for folder in PurePosixPath(file).parents} & self.files

    def _found_by(self, call: ast.Call) -> set[str]:
        """The files of the operation or lab that a call finds; of all of them where it names none."""
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
        these = [which for which in self.members if which[0] == _FINDERS.get(called)]
        named = getattr(call.args[0], "value", None) if call.args else None
        these = [which for which in these if which[1] == named] or these
        return {file for which in these for file in self.members[which] if file.startswith("kernels/")}

    def _named_in(self, text: str, file: str) -> set[str]:
        """The module or the files that a string names; of several of one name those in the file's own folder."""
        if re.fullmatch(r"kernels(\.\w+)+", text):
            return set(self._module(text, file))
        if "\n" in text:
            return self._imported_in(text, file)
        if text in _READING:
            return {one for one in self.files if _READING[text].match(one)}
        found = self._named.get(text.rpartition("/")[2], set())
        return {one for one in found if PurePosixPath(one).is_relative_to(PurePosixPath(file).parent)} or found

    def _imported_in(self, program: str, file: str) -> set[str]:
        """The files that a program in a string, or a part of one, imports."""
        lines = re.findall(r"^\s*(?:from ([\w.]+) )?import ([\w.]+)", program, re.MULTILINE)
        found = (self._import_from(base, name, file) if base else self._import(name, file) for base, name in lines)
        return {path for imports in found for _, path in imports}

    def _imports(self, file: str, tree: ast.AST) -> Iterator[tuple[str, str]]:
        """(name, file that it leads to) of what a file imports."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._import(alias.name, file)
            elif isinstance(node, ast.ImportFrom):
                above = PurePosixPath(file).parents[node.level - 1].parts if node.level else ()
                base = ".".join([*above, *filter(None, [node.module])])
                for alias in node.names:
                    yield from self._import_from(base, alias.name, file)

    def _import(self, name: str, file: str) -> Iterator[tuple[str, str]]:
        yield from ((name, path) for path in self._module(name, file))

    def _import_from(self, base: str, name: str, file: str) -> Iterator[tuple[str, str]]:
        modules = [*self._module(f"{base}.{name}", file)]
        if base == "kernels":
            modules = modules or [self._exports[name]] if name in self._exports else modules
        else:
            modules += self._module(base, file)
        yield from ((name, path) for path in modules)

    def _module(self, dotted: str, file: str) -> Iterator[str]:
        """The file of a module, and those of the packages around it, which run first."""
        parts = dotted.split(".")
        for start in dict.fromkeys([*PurePosixPath(file).parents, *map(PurePosixPath, SEARCHED)]):
            ends = (start.joinpath(*parts).with_suffix(".py"), start.joinpath(*parts, "__init__.py"))
            if found := [str(path) for path in ends if str(path) in self.files]:
                yield from found
                packages = (str(start.joinpath(*parts[:n], "__init__.py")) for n in range(1, len(parts)))
                yield from (path for path in packages if path in self.files)
                return

    def _beside(self, file: str, sources: set[str]) -> set[str]:
        parents = PurePosixPath(file).parents
        for folder in parents[1:] if file.endswith("/__init__.py") else parents:
            if folder.name and (here := {one for one in sources if PurePosixPath(one).parent == folder}):
                return here
        return set()

    def _tree(self, file: str) -> ast.AST:
        """The syntax tree of a Python file or of a notebook's cells; an empty one of what is not Python."""
        text = (self.root / file).read_text()
        if file.endswith(".ipynb"):
            cells = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
            text = "\n".join(cell for cell in cells if not cell.startswith("%%"))
            text = re.sub(r"^%load_ext (\S+)", r"import \1", text, flags=re.MULTILINE)
            text = re.sub(r"^[%!].*", "", text, flags=re.MULTILINE)
        try:
            return ast.parse(text)
        except SyntaxError:
            return ast.Module([], [])
