# Every target works from a fresh clone: the first one run sets up .venv.
#
#   make start                the first ten minutes, in JupyterLab
#   make CPU=1 lab            installs PyTorch's own CPU wheels: no gigabytes of CUDA packages
#   make PY=python3 test-gpu  uses that Python as it is, and installs nothing

PYTHON ?= python3
IP ?= 127.0.0.1
VENV := .venv
PY := $(VENV)/bin/python
comma := ,
# Its presence is not enough: a container may have the command and no GPU.
GPU = $(shell nvidia-smi >/dev/null 2>&1 && echo works)
EXTRAS = book,lab,test$(if $(GPU),$(comma)gpu)
INDEX = $(if $(CPU),--extra-index-url https://download.pytorch.org/whl/cpu)
SETUP := $(if $(filter $(VENV)/%,$(PY)),$(VENV)/.installed)
# What pip says: with 0, what it downloads.
PIP_QUIET ?= 1
export PIP_QUIET
OPENS := contents.md
SIZE = $(if $(GPU),with CUDA several gigabytes to download,for a CPU about 700 MB to download and 3 GB on disk)
# Line numbers, and the colours of CUDA C.
LAB_LOOKS := --LabApp.app_settings_dir=book/lab_settings --LabApp.extra_labextensions_path=book/lab_extensions
CHAPTERS := $(wildcard book/*/*.ipynb)
LABS := $(wildcard labs/*.ipynb labs/solutions/*.ipynb)
# Chapters that judge times run one at a time.
JUDGING = $(shell grep -l measure.verdict $(CHAPTERS))
QUICK = $(shell grep -rlE 'mark\.(quick|always)' --include='test_*.py' tests)
STARTED := $(shell date +%s)
# What a change concerns runs in full, of the rest a share: SHARE=3/8 repeats one, CHANGED_SINCE=<commit> says what has changed.
SHARE ?= auto
SHARED := -p tests.budget -p tests.share --share=$(SHARE)
# A cell that hangs is found in two minutes. Kernels that start at once do not take each other's ports.
NBVAL := $(PY) -m pytest -p book.own_sockets --nbval --nbval-current-env --nbval-cell-timeout=120
IN_LABS := --nbval-sanitize-with=labs/sanitize.cfg

# What Inductor compiled is found again by a graph's source, which does not say which shapes our operators give: after a change
# of those, an old entry fails. So each state of the package has its own cache.
export TORCHINDUCTOR_CACHE_DIR ?= $(CURDIR)/_build/inductor/$(shell cat kernels/ops/*/*.py kernels/*.py | git hash-object --stdin)

ifneq ($(PY),$(VENV)/bin/python)
# That Python need not have the package installed, nor what it starts.
export PYTHONPATH := $(CURDIR)$(addprefix :,$(PYTHONPATH))
endif

.PHONY: help setup doctor start book lab labs lint quick test shared exhaustive test-all test-gpu coverage
.PHONY: references resources counters measure clean

help:
	@echo 'make start       begin here: edit a kernel, see it checked, in JupyterLab'
	@echo 'make book        build the book from the stored outputs'
	@echo 'make lab         open JupyterLab on your copy of the chapters and labs'
	@echo 'make labs        make the labs that learners get from the solved ones'
	@echo 'make quick       a minute: lint, types, the structure, two cases a level'
	@echo 'make test        what you changed in full, of all other tests and notebooks an eighth'
	@echo 'make exhaustive  the same of the tests that drive a browser or take minutes'
	@echo 'make test-all    everything, before a release'
	@echo 'make test-gpu    on a GPU: the check, the tests and every notebook'
	@echo 'make coverage    which lines of kernels/ no test runs, in _build/coverage'
	@echo 'make doctor      what is here, and what each missing piece costs'
	@echo 'make references  execute every notebook and store its outputs'
	@echo 'make resources   store what the compilers say of every kernel, or of OP=softmax'
	@echo 'make counters    store what the lens counts of every CUDA C rung'
	@echo 'make measure     on a GPU: write book/results'

setup: $(SETUP)

$(VENV)/.installed: constraints.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo 'there is no $(PYTHON) here: make PYTHON=<Python 3.11 or newer> …'; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ": make PYTHON=python3.12 …")'
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install $(INDEX) -c constraints.txt -e '.[$(EXTRAS)]'
	touch $@

doctor: $(SETUP)
	@$(PY) -m kernels doctor

start:
	@command -v $(CXX) >/dev/null || { echo 'there is no C++ compiler here, which runs CUDA C: sudo apt install g++'; exit 1; }
	@test -z '$(SETUP)' || test -e '$(SETUP)' || echo 'Once, .venv is set up: $(SIZE), two minutes and the time of the download.'
	@$(MAKE) --no-print-directory PIP_QUIET=0 $(if $(GPU),,CPU=1) setup
	@$(MAKE) --no-print-directory OPENS=labs/start.ipynb lab

book: $(SETUP)
	@$(PY) -m jupyter book build . -W -n --keep-going -q
	@echo 'Built. To read it: $(PY) -m http.server -b 127.0.0.1 -d _build/html, then http://127.0.0.1:8000'
	@echo 'Or open _build/html/index.html; search needs the server.'

lab: $(SETUP)
	@$(PY) labs/working_copies.py
	$(PY) -m jupyterlab --ip=$(IP) $(LAB_LOOKS) --LabApp.default_url=/lab/tree/work/$(OPENS) $(LAB)

labs: $(SETUP)
	$(PY) book/references.py $(wildcard labs/solutions/*.ipynb)
	$(PY) labs/generate.py

lint: $(SETUP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

quick: lint
	$(PY) -m pytest -n 2 --dist worksteal $(SHARED) --touched-seconds=40 -m 'quick or always' $(QUICK)
	@$(PY) -m tests.budget 'make quick' $(STARTED)

test: shared
	@$(PY) -m tests.budget 'make test' $(STARTED)

shared: lint
	$(PY) -m pytest -n 2 --dist worksteal $(SHARED) --touched-seconds=400 tests
	$(NBVAL) $(SHARED) --touched-seconds=60 -p no:xdist $(JUDGING)
	$(NBVAL) $(SHARED) --touched-seconds=80 -n 2 --dist loadfile $(filter-out $(JUDGING),$(CHAPTERS))
	$(NBVAL) $(SHARED) --touched-seconds=80 $(IN_LABS) -n 2 --dist loadfile $(LABS)

exhaustive: $(SETUP)
	$(PY) -m pytest -n 2 --dist worksteal $(SHARED) --touched-seconds=200 -m 'slow and not alone' tests
	$(PY) -m pytest $(SHARED) --touched-seconds=100 -m 'browser or alone' tests

test-all: $(SETUP)
	$(MAKE) shared exhaustive SHARE=1/1

coverage: $(SETUP)
	$(PY) -m pytest -n 2 --dist worksteal --cov=kernels --cov-report=html:_build/coverage --cov-report=term:skip-covered tests

test-gpu: $(SETUP)
	$(PY) -m kernels check --device cuda --all
	$(PY) -m kernels check --device cuda --wrong
	$(NBVAL) -p no:xdist $(JUDGING)
	$(NBVAL) -n 6 --dist loadfile $(filter-out $(JUDGING),$(CHAPTERS))
	$(NBVAL) $(IN_LABS) -n 6 --dist loadfile $(LABS)
	$(PY) -m pytest -n 8 tests

references: $(SETUP)
	$(PY) book/references.py $(CHAPTERS) $(LABS)

resources: $(SETUP)
	TRITON_INTERPRET=0 $(PY) tests/stored/resources.py tests/stored/resources $(OP)

counters: $(SETUP)
	$(PY) tests/stored/counters.py tests/stored/counters $(OP)

measure: $(SETUP)
	mkdir -p book/results
	$(PY) -m kernels bench --device cuda --json book/results --minutes inf
	$(PY) -m book.recorders.timeline book/results/timelines
	$(PY) -m book.recorders.compilers book/results/compilers
	$(PY) -m book.recorders.calls book/results/calls
	$(PY) -m book.recorders.lab_times book/results/labs
	$(PY) -m book.recorders.accesses book/results/accesses
	$(PY) -m book.recorders.profile book/results/profiles
	$(PY) -m book.recorders.misses book/results/misses --minutes inf
	$(PY) -m book.recorders.claims book/results/claims

clean:
	rm -rf _build
