# Every target makes the environment it needs: a virtual environment per Python version in .venv/.
#   make demo      train real models eagerly and compiled, and print the report
#   make smoke     the whole path once, and the tests of names and layers: a minute
#   make test      the test suite            (PYTHON=python3.12 for another interpreter)
#   make test-sanitizers   kernels under AddressSanitizer and UndefinedBehaviorSanitizer (gcc)
#   make gpu       what .ci/gpu runs on a machine with a GPU, here on stand-ins
#   make test-cuda   all that is for GPUs, without one: an emulator, NVRTC, stand-ins
#   make oracle    PyTorch into the environment, so that make test compares with it
#   make browser   a headless Chromium and its driver, so that make test clicks through pages
#   make packages  packages written for PyTorch, so that make test runs them with dynajit in its place
#   make check     ruff, formatting, mypy, layering
#   make bench     benchmarks, interleaved ratios
#   make docs      the documentation as HTML
#   make wheel-check   wheels from a source distribution, tried in clean environments

PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV ?= .venv/$(VERSION)
BIN := $(VENV)/bin
SOURCES := setup.py pyproject.toml $(shell find dynajit eager capture codegen -name "*.[ch]")
GPU_RESULTS ?= gpu-results
CUDA_RESULTS ?= cuda-results
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo smoke test test-sanitizers test-cuda cuda-table cuda-fusion cuda-calls gpu oracle browser packages check format bench docs wheel-check clean

demo: $(VENV)/.demo
	$(BIN)/python -m dynajit demo

smoke: $(VENV)/.test
	$(BIN)/python -m pytest $(addprefix tests/test_,tiny.py readme.py exports.py signatures.py layering.py)

test: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

KERNEL_TESTS := $(shell find tests/codegen -name "test_*.py" | sort)

# Generated C only: the extension modules and NumPy are not instrumented. A finding ends the run.
# SANITIZED names tests; left out by default is what compiles C by itself, or runs no kernel.
SANITIZED ?= tests/ops/test_conformance_graphs.py tests/ops/test_convolution_settings.py \
    -k 'not interpreted' $(filter-out \
    $(addprefix tests/codegen/,test_vecmath.py test_vecmath_f64.py test_sanitizers.py \
    compilers/test_nvrtc.py compilers/test_toolchain.py cuda/test_text.py),$(KERNEL_TESTS)) \
    --deselect tests/codegen/test_runtime.py::test_calls_leak_nothing
test-sanitizers: $(VENV)/.test
	DYNAJIT_SANITIZE=1 DYNAJIT_CC=gcc PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so)" $(BIN)/python -m pytest -x $(SANITIZED)

# The op table in every dtype and the graphs of the fusion tests, run on the emulator; each of their
# kernels compiled by NVRTC for three architectures; whatever needs CuPy or a driver, on stand-ins.
# The parts run side by side. CUDA_RESULTS gets what every kernel takes of a GPU.
CUDA_TESTS := $(addprefix tests/codegen/,compilers/test_cubin.py compilers/test_nvrtc.py \
	test_fuzz_cuda.py) $(filter tests/codegen/cuda/% tests/codegen/test_cuda_%,$(KERNEL_TESTS))
CUDA_LAST := tests/codegen/test_kernels_met.py
CUDA_PYTEST = $(BIN)/python -m pytest --cuda all --resources $(CUDA_RESULTS)/$@.tsv
test-cuda: $(VENV)/.test $(VENV)/.cupy
	rm -rf $(CUDA_RESULTS)
	$(MAKE) --no-print-directory -j $$(nproc) -O -k cuda-table cuda-fusion cuda-calls
	@awk -F'\t' 'FNR > 1 { kernels[$$1]++; if ($$4 > most[$$1]) most[$$1] = $$4; kept[$$1] += $$5 > 0 } \
	END { for (a in kernels) printf "%s: %d kernels, at most %d registers, %d with local memory\n", \
	a, kernels[a], most[a], kept[a] }' $(CUDA_RESULTS)/*.tsv

cuda-table:
	$(CUDA_PYTEST) tests/ops/test_conformance_cuda.py $(CUDA_LAST)

cuda-fusion:
	$(CUDA_PYTEST) --target cuda $(filter-out $(CUDA_TESTS) $(CUDA_LAST),$(KERNEL_TESTS)) \
	$(CUDA_TESTS) $(CUDA_LAST)

cuda-calls:
	DYNAJIT_STAND_IN=1 $(BIN)/python -m pytest tests/gpu

# GPU tests and benchmarks at small sizes, on stand-ins for CuPy and the CUDA driver, which are slower
# than a GPU: they have more time than the ten minutes of .ci/gpu.
gpu: $(VENV)/.test
	DYNAJIT_STAND_IN=1 GPU_TESTS_S=$${GPU_TESTS_S:-1200} GPU_BENCH_S=$${GPU_BENCH_S:-900} \
	PYTHON=$(abspath $(BIN))/python bash .ci/gpu $(GPU_RESULTS)

# PyTorch into the environment: the comparisons with it are skipped without.
oracle: $(VENV)/.oracle

# A browser and what drives it: the tests that click through the pages of reports are skipped without.
browser: $(VENV)/.browser
	.ci/browser

packages: $(VENV)/.packages

check: $(VENV)/.test $(VENV)/.check .typecheck/dynajit
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=.typecheck $(BIN)/mypy --explicit-package-bases -p dynajit
	$(BIN)/python -m pytest tests/test_layering.py tests/test_exports.py tests/test_stubs.py

format: $(VENV)/.check
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

docs: $(VENV)/.built $(VENV)/.docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

wheel-check:
	.ci/wheel-check

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install 'setuptools>=77' wheel 'numpy>=2.0'
	@touch $@

# The editable install also compiles the C extensions; it runs again when a C source changes. Bytecode
# is there from the beginning: with PYTHONDONTWRITEBYTECODE in the environment, each of the hundreds of
# processes that tests start would compile what it imports, for a second and more.
$(VENV)/.built: $(VENV)/.made $(SOURCES)
	$(PIP) install --no-build-isolation -e .
	@$(BIN)/python -m compileall -q dynajit eager capture codegen benchmarks tests/support
	@touch $@

# What an extra of pyproject.toml needs; the package itself would be compiled again.
EXTRA = import sys, tomllib; print(*tomllib.load(sys.stdin.buffer)["project"]["optional-dependencies"][sys.argv[1]], sep="\n")
$(VENV)/.demo $(VENV)/.test $(VENV)/.check $(VENV)/.docs $(VENV)/.oracle $(VENV)/.browser: $(VENV)/.%: $(VENV)/.built
	$(BIN)/python -c '$(EXTRA)' $* < pyproject.toml > $@.requirements
	$(PIP) install -r $@.requirements
	@touch $@

# The CuPy that its stand-in is compared with; it is imported without a GPU.
$(VENV)/.cupy: $(VENV)/.built
	$(PIP) install 'cupy-cuda13x>=14'
	@touch $@

# Without what they depend on: that is PyTorch, mostly.
$(VENV)/.packages: $(VENV)/.oracle tests/packages/requirements.txt
	$(PIP) install --no-deps --no-build-isolation -r tests/packages/requirements.txt
	@touch $@

# mypy does not follow the package mapping of pyproject.toml: give it a tree in which it is real.
.typecheck/dynajit: Makefile
	rm -rf .typecheck && mkdir -p .typecheck/dynajit
	for entry in dynajit/*; do ln -s ../../$$entry .typecheck/dynajit/; done
	for engine in eager capture codegen; do ln -s ../../$$engine .typecheck/dynajit/; done

clean:
	rm -rf build dist *.egg-info .typecheck docs/_build docs/reference wheel-check
	find . -name '*.so' -not -path './.venv/*' -delete
