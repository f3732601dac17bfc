# make demo   a picture from a bundled example, two minutes from a fresh clone
# make test   the tests, all but those that need a browser
# make test-browser  the studio in Chromium, which is installed if it is missing (as root, with apt-get)
# make screenshots   the pictures of docs/studio.md, made anew
# make pictures      those of the README and docs/ that the embedded model paints, made anew
# make check  linter, formatter and type checker
# make parity the metrics against the packages they must equal
# make fuzz   hostile inputs by the thousand (MAST_FUZZ=N examples of each property, 500 if not given)
# make clean  removes what the others made, .venv included

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-browser screenshots pictures parity check fuzz clean

demo: $(VENV)/installed
	$(BIN)/mast demo --quick --overwrite --out out/demo

# Two files at a time, each process with one thread: busy processes of several threads slow each other down.
test: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --ignore tests/browser

# Here nothing is skipped: Chromium, Playwright and the weights that find objects are fetched first.
test-browser: $(VENV)/installed-browser
	MAST_BROWSER_TESTS=required OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/browser

screenshots: $(VENV)/installed-browser
	$(BIN)/python -m tests.browser.screenshots docs/images

pictures: $(VENV)/installed-dev
	$(BIN)/python docs/pictures.py

parity: $(VENV)/parity $(VENV)/installed-dev
	PYTHONPATH=$(VENV)/parity $(BIN)/python -m pytest tests/metrics/test_parity.py tests/metrics/test_fid.py

# What strangers may give: pictures, records, JSON, model folders, checkpoints, annotations, names of methods.
HOSTILE := tests/images/test_images_fuzz.py tests/images/test_images_bad.py tests/test_files.py tests/features/test_cache.py \
	tests/pipeline/test_provenance.py tests/pipeline/test_jobfile.py tests/pipeline/test_threads.py tests/backbone/test_hostile_folder.py \
	tests/backbone/test_ckpt.py tests/backbone/test_threads.py tests/regions/test_read.py tests/regions/test_regions_specs.py \
	tests/bench/test_bench_coco.py tests/bench/test_bench_resume.py tests/methods/test_spec.py tests/cli/test_cli_bad_input.py \
	tests/studio/test_safety.py tests/studio/test_hostile.py tests/studio/test_api.py

fuzz: $(VENV)/installed-dev
	MAST_FUZZ=$${MAST_FUZZ:-500} timeout 3000 $(BIN)/python -m pytest $(HOSTILE) --hypothesis-show-statistics

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch comes first and pinned: an unpinned one would bring gigabytes of GPU libraries.
$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	$(INSTALL) --editable .
	touch $@

# In a folder of its own: beside a CPU build of torch, torchvision would break the imports of other packages.
$(VENV)/parity: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@ \
		lpips==0.1.4 pytorch-fid==0.3.0 torch-fidelity==0.3.0 torchvision==0.28.0 scipy==1.17.1

$(VENV)/installed-browser: $(VENV)/installed-dev
	$(INSTALL) --editable '.[dev,browser]'
	command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium; } \
		|| { echo "chromium is missing: as root, apt-get install chromium" >&2; exit 1; }
	$(BIN)/mast weights fetch mobile-sam u2netp
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(INSTALL) --editable '.[dev]'
	touch $@
