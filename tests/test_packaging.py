"""One set of versions for every way to install, every dependency justified, and containers that no one else can enter.

Nothing is built here: the files are parsed.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.always
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = [
    Requirement(line) for line in [*PROJECT["dependencies"], *(name for extra in EXTRAS.values() for name in extra)]
]
PINS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
]
INSTALLERS = ["Makefile", ".ci/run", "environment.yml", "docker/Dockerfile", "docker/compose.yml", "CONTRIBUTING.md"]


def names(requirements: list[Requirement]) -> list[str]:
    return [canonicalize_name(requirement.name) for requirement in requirements]


def logical_lines(path: str) -> list[str]:
    """The lines of a Makefile, script or Dockerfile without comments, continued lines joined."""
    lines = [line for line in (ROOT / path).read_text().splitlines() if not line.lstrip().startswith("#")]
    return re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines()


def dockerfile() -> list[tuple[str, str]]:
    """(instruction, arguments) of each line of the Dockerfile."""
    return [tuple(line.split(maxsplit=1)) for line in logical_lines("docker/Dockerfile") if line.strip()]


def stages() -> dict[str, list[tuple[str, str]]]:
    """The instructions of each stage of the Dockerfile by its name; the last has none and is called final."""
    found: dict[str, list[tuple[str, str]]] = {}
    stage: list[tuple[str, str]] = []
    for word, rest in dockerfile():
        if word == "FROM":
            stage = found.setdefault(rest.partition(" AS ")[2] or "final", [])
        stage.append((word, rest))
    return found


def services() -> dict[str, dict]:
    return yaml.safe_load((ROOT / "docker/compose.yml").read_text())["services"]


# Versions


def test_every_constraint_is_one_exact_version_and_stands_once():
    for pin in PINS:
        assert [specifier.operator for specifier in pin.specifier] == ["=="], pin
    assert len(PINS) == len(set(names(PINS)))


def test_every_direct_dependency_is_pinned():
    assert set(names(DIRECT)) - set(names(PINS)) == set()


def test_pyproject_names_dependencies_without_versions():
    assert [str(requirement) for requirement in DIRECT if requirement.specifier] == []


@pytest.mark.parametrize("path", INSTALLERS)
def test_no_version_of_a_package_is_written_a_second_time(path):
    known = "|".join(re.sub("[-_.]", "[-_.]", pin.name) for pin in PINS)
    again = re.compile(rf"(?<![\w.-])(?:{known})(?:\[[\w,]+\])?\s*[=<>~!]{{1,3}}\s*\d[\w.]*", re.IGNORECASE)
    assert again.findall((ROOT / path).read_text()) == []


@pytest.mark.parametrize("path", ["Makefile", ".ci/run", "docker/Dockerfile"])
def test_pip_installs_by_the_constraints_only(path):
    installs = [line for line in logical_lines(path) if re.search(r"\bpip3?\b.*\binstall\b", line)]
    assert [line for line in installs if "-c constraints.txt" not in line] == []
    assert bool(installs) == (path == "Makefile")  # the others install by `make setup`


def test_conda_installs_by_the_constraints():
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    *conda, pip = dependencies
    assert {re.split(r"[=<>]", name)[0] for name in conda} == {"python", "cxx-compiler", "make", "pip"}
    # Of what conda brings, only the interpreter has a version: no other file gives it one.
    assert [name for name in conda if re.search(r"[=<>]", name) and not name.startswith("python=")] == []
    constraints, package = pip["pip"]
    assert constraints == "-c constraints.txt"
    extras = re.fullmatch(r"-e \.\[([\w,]+)\]", package).group(1).split(",")
    assert set(extras) == set(EXTRAS) - {"gpu"}


# make start


def make_start(folder: Path, nvidia_smi: int | None) -> str:
    """What `make start` prints where nvidia-smi exits so, or is not there. Python's calls are printed, not made."""
    for path, script in {
        folder / "venv/bin/python": 'echo "python $@"',
        folder / "bin/nvidia-smi": f"exit {127 if nvidia_smi is None else nvidia_smi}",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    # Not what a make that runs the tests hands down.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{environment['PATH']}"
    command = ["make", "-C", ROOT, f"PYTHON={sys.executable}", f"VENV={folder / 'venv'}", "LAB=--no-browser", "start"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("nvidia_smi", [None, 9, 0])
def test_start_says_the_size_installs_and_opens_its_notebook(tmp_path, nvidia_smi):
    printed = make_start(tmp_path, nvidia_smi)
    places = [printed.index(what) for what in ("to download", "-m pip install", "working_copies.py", "-m jupyterlab")]
    assert places == sorted(places), printed
    on_gpu = nvidia_smi == 0
    assert ("/whl/cpu " in printed) == (not on_gpu)
    assert (",gpu]" in printed) == on_gpu
    (opened,) = set(re.findall(r"/lab/tree/work/(\S+)", printed))
    assert (ROOT / opened).exists()
    assert "--no-browser" in printed


def test_started_again_it_installs_nothing(tmp_path):
    make_start(tmp_path, None)
    again = make_start(tmp_path, None)
    assert "download" not in again
    assert "pip install" not in again
    assert "-m jupyterlab" in again


# Dependencies


def test_every_dependency_is_justified_and_no_other():
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## What we depend on\n")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")
    ]
    reasons = dict(rows[2:])
    assert set(reasons) == set(names(DIRECT))
    assert len(reasons) == len(rows) - 2, "a package stands there twice"
    assert [name for name, reason in reasons.items() if name != "pytest" and len(reason.split()) < 5] == []


# Containers


def test_the_images_are_set_up_by_make_for_both_devices():
    assert set(stages()) == {"cpu", "cuda", "final"}
    final = stages()["final"]
    assert final[0] == ("FROM", "${DEVICE}")
    (setup,) = [rest for word, rest in final if word == "RUN" and "make" in rest.split()]
    assert setup.endswith(' make VENV=/opt/venv "${SETUP_OPTION}" setup')
    options = {
        device: dict(rest.split("=", 1) for word, rest in stages()[device] if word == "ENV")
        for device in ("cpu", "cuda")
    }
    assert options["cpu"] == {"SETUP_OPTION": "CPU=1"}
    variable, extras = options["cuda"]["SETUP_OPTION"].split("=")
    assert (variable, set(extras.split(","))) == ("EXTRAS", set(EXTRAS))
    for variable in ("CPU", "EXTRAS", "VENV"):  # the Makefile knows what it is given
        assert re.search(rf"\$\({variable}\)", (ROOT / "Makefile").read_text()), variable


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_images_have_what_make_and_the_kernels_need(device):
    (install,) = [rest for word, rest in stages()[device] if word == "RUN"]
    assert {"g++", "git", "make"} <= set(install.split())


def test_jupyter_does_not_run_as_root():
    users = [rest for word, rest in stages()["final"] if word == "USER"]
    assert users
    assert users[-1] not in ("root", "0")
    assert any(
        word == "RUN" and f" {users[-1]} " in f"{rest} " and "useradd" in rest for word, rest in stages()["final"]
    )
    assert all("user" not in service for service in services().values())


def test_a_token_is_required():
    (command,) = [json.loads(rest) for word, rest in stages()["final"] if word == "CMD"]
    assert command[:2] == ["make", "lab"]
    settings = [*command, *(rest for word, rest in dockerfile() if word in ("ENV", "ARG"))]
    assert [text for text in settings if re.search("token|password|allow-root", text, re.IGNORECASE)] == []
    for service in services().values():
        assert service["environment"] == ["JUPYTER_TOKEN"]  # passed on, never given a value here
        assert "command" not in service
        assert "entrypoint" not in service


def test_an_empty_token_counts_as_none_chosen(monkeypatch):
    auth = pytest.importorskip("jupyter_server.auth", reason="JupyterLab is not installed")
    monkeypatch.setenv("JUPYTER_TOKEN", "")
    assert len(auth.IdentityProvider().token) >= 32


def test_ports_are_open_to_this_machine_only():
    (command,) = [json.loads(rest) for word, rest in stages()["final"] if word == "CMD"]
    (port,) = re.findall(r"--port=(\d+)", " ".join(command))
    for service in services().values():
        assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
        assert service.get("network_mode") is None


def test_compose_builds_each_device_and_gives_the_gpu_to_cuda():
    assert set(services()) == {"cpu", "cuda"}
    for device, service in services().items():
        assert (ROOT / "docker" / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).exists()
        assert f"DEVICE={device}" in service["build"]["args"]
        assert ("deploy" in service) == (device == "cuda")


def test_the_build_sees_no_ignored_file():
    def patterns(name: str) -> set[str]:
        return {
            line.removeprefix("**/") for line in (ROOT / name).read_text().splitlines() if line[:1] not in ("", "#")
        }

    assert patterns(".gitignore") | {".git/"} == patterns(".dockerignore")
