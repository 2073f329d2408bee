# make demo: set up, score the example captions, show the table.   make test: set up, run every check.
# make quick: the same without the slow tests.   make docs: builds the documentation site into out/site.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# one process for each core and one more, as many tests wait for servers, browsers and clusters; whole files to each, so that
# what a file's tests share is made once; one thread in each, and threads that wait leave their core to others
TESTING := -n $(shell $(PYTHON) -c "import os; print(os.cpu_count() + 1)") --dist loadfile --no-loadscope-reorder
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= passive
# compiled modules are kept, as they are where a package is installed: tests start hundreds of processes
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test quick lint docs fuzz clean

demo: $(VENV)/.demo
	@mkdir -p out
	$(BIN)/capmeter score examples/human.json examples/strong.json examples/weak.json examples/broken.json \
	  --references examples/references.json \
	  --metrics bleu-1,bleu-2,bleu-3,bleu-4,rouge-l,cider,cider-d,cider-r,sparcs,tbr-unigram,hwcm \
	  --output out/scores.json
	$(BIN)/capmeter report out/scores.json --output out/report.html --title "Example captions" --images none
	@echo "The scores of every caption: out/scores.json"
	@echo "The page, for a browser:     $(CURDIR)/out/report.html"

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest $(TESTING)

quick: $(VENV)/.dev lint
	$(BIN)/python -m pytest $(TESTING) -m "not slow"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src research/src examples/scene-clip/scene_clip
	$(BIN)/mypy --config-file tests/mypy.ini tests
	$(BIN)/mypy --config-file tests/mypy.ini research/tests
	$(BIN)/mypy --config-file tests/mypy.ini --enable-error-code attr-defined benchmarks scripts

# strictly: a warning, a link or a command of a page that fails ends the build
docs: $(VENV)/.dev
	$(BIN)/python scripts/site/build.py
	@echo "The site: $(CURDIR)/out/site/index.html"

# hostile structures and mutated files through load, parts and score: minutes; the tests run a short one
fuzz: $(VENV)/.dev
	$(BIN)/python tests/fuzz/hostile.py --inputs 200000
	$(BIN)/python tests/fuzz/checkpoints.py --inputs 10000
	$(BIN)/python tests/fuzz/answers.py --inputs 20000
	$(BIN)/python tests/fuzz/arguments.py --inputs 20000
	$(BIN)/python tests/fuzz/kills.py --kills 300
	$(BIN)/python -m pytest -q tests/text tests/stats tests/captions tests/transforms tests/core \
	  -m "not slow" --hypothesis-profile random

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'

$(VENV)/.demo: pyproject.toml research/pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[report]' --editable ./research
	@touch $@

# torch first and by its exact version: a looser requirement may bring gigabytes for graphics cards
$(VENV)/.dev: pyproject.toml research/pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable . --group dev --editable './research[all]'
	@touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) out
