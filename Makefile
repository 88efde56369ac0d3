# make train    from a fresh clone: train clip-higher and DIVER side by side, write runs/quickstart/report.html
# make test     the tests in random order, as on a machine with AVX2 alone, in another locale and time zone, without HOME
# make test-slow   those that take longer, and more examples of each property, in order and as this machine is
# make test-studies   the slow ones of the studies: their commands, killed and started again, and their pages
# make check    ruff, mypy, no test that asserts on a clock, no sentence of more than 30 words, and the words of the docs
# make real     two steps on real weights (SmolLM2-135M-Instruct) and real problems (GSM8K), on a CPU
# make test-trl   the adapter and diver train --engine trl under stock TRL on one and two processes, LoRA too; games of TextWorld
# make test-verl  the plugin and diver train --engine verl under stock verl, Ray and FSDP on a CPU
# make test-vllm  real vLLM on a CPU: evaluation in this process and by a server, TRL and verl with it, scripts/one_hour.sh
#                 these three in one environment, .venv-trainers
# make test-trl-old   the adapter under the older TRL and transformers that Unsloth had, in an environment of its own
# make test-engines   the adapters under ms-swift (two steps on a CPU), SkyRL's and tinker-cookbook's classes
# make test-rest   test-studies, test-trl-old and test-vllm: what .ci/run leaves out, after a change there and before a release
# make conformance  docs/conformance.md: our losses and advantages beside those of TRL, verl and ms-swift
# make versions  the page and the pins of src/diver/integrations/versions.toml, which names every release of an engine
# make package  the sdist and the wheel, installed into an empty environment outside the clone: at work, size, import time
# make docs     the documentation as a site, in build/site
# make bench    the benchmarks, one JSON file each under benchmarks/results

PYTHON ?= python3
BIN := .venv/bin
DIVER_DATA ?= ../shared/data
export DIVER_DATA
# Where the shell sets it, every process would compile the tests and the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: versions conformance train test test-slow test-studies test-rest test-trl test-trl-old test-engines test-verl test-vllm check package docs bench real clean

train: .venv/ready
	$(BIN)/python scripts/quickstart.py

# Side by side, one thread each. Half of the tests go to each of two processes, and the one that is done first takes
# half of what the other has left, so a file is cut in two at few places.
# make prints the command with the seed of the order, and `make test SEED=N` repeats it.
test: SEED ?= $(shell $(PYTHON) -c 'import random; print(random.randrange(10**6))')
test: .venv/ready
	env -u HOME OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 LANG=C TZ=Asia/Kolkata \
		$(BIN)/python -m pytest --randomly-seed=$(SEED) -m "not slow" -n auto --maxprocesses 4 --dist worksteal

# A file stays in one process: what its tests share takes long to make. Files come in the order of collection, which
# tests/conftest.py gives them, and not by their number of tests: one test of a minute would be left to the end.
SLOW = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:randomly -m "slow or hypothesis" --hypothesis-profile many \
	--durations 20 -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
test-slow: .venv/ready
	$(SLOW) --ignore tests/study

test-studies: .venv/ready
	$(SLOW) tests/study

test-rest: test-studies test-trl-old test-vllm

# One thread: .ci/run tests the trainers beside the slow tests, where two threads wait for each other.
test-trl: .venv-trainers/ready
	OMP_NUM_THREADS=1 .venv-trainers/bin/python -m pytest tests/integrations/trl tests/train/test_loggers.py --durations 20
	OMP_NUM_THREADS=1 .venv-trainers/bin/python -m pytest -k textworld tests/tasks/test_textworld.py tests/tasks/test_testbeds.py tests/train/test_trajectory_runs.py

test-trl-old: .venv-trl-old/ready
	OMP_NUM_THREADS=1 .venv-trl-old/bin/python -m pytest -rs tests/integrations/trl

test-engines: .venv-engines/ready
	OMP_NUM_THREADS=1 .venv-engines/bin/python -m pytest -rs tests/integrations/engines

test-verl: .venv-trainers/ready
	OMP_NUM_THREADS=1 .venv-trainers/bin/python -m pytest tests/integrations/verl --durations 20

test-vllm: .venv-trainers/ready
	.venv-trainers/bin/python -m pytest -s -m "slow or not slow" tests/integrations/vllm tests/sample/test_vllm_generator.py --durations 0

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/no_clocks.py tests
	$(BIN)/python scripts/prose.py
	$(BIN)/python scripts/words.py

versions: .venv/ready
	$(BIN)/python scripts/engine_versions.py

conformance: .venv-trainers/ready .venv-engines/ready
	.venv-trainers/bin/python scripts/conformance.py
	.venv-engines/bin/python scripts/conformance.py --trainers ms-swift

real: .venv/ready
	$(BIN)/python scripts/real.py

package:
	scripts/package.sh

# A broken link, an anchor that is not there or a page outside of the navigation is an error.
docs: .venv-docs/ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict

bench: .venv/ready .venv-trainers/ready
	$(BIN)/python benchmarks/textual.py
	$(BIN)/python benchmarks/extraction.py
	$(BIN)/python benchmarks/verify.py
	$(BIN)/python benchmarks/read.py
	$(BIN)/python benchmarks/sample.py
	$(BIN)/python benchmarks/turns.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/coverage.py
	$(BIN)/python benchmarks/levels.py
	.venv-trainers/bin/python benchmarks/engine.py

# pip would compile every module, and most are never imported; Python compiles those that are.
INSTALL := install --quiet --no-compile

# torch by itself and the rest without dependencies: the lock is complete, and nothing pulls another build of torch.
.venv/ready: requirements.lock pyproject.toml studies/pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip $(INSTALL) "$$(grep '^torch==' requirements.lock)"
	$(BIN)/pip $(INSTALL) --no-deps -r requirements.lock
	$(BIN)/pip $(INSTALL) --no-deps --no-build-isolation -e . -e ./studies
	touch $@

# A new environment has the torch of .venv, by hard links, which costs neither time nor space.
SITE := lib/python3*/site-packages
define with-torch
	test -d $(1) || { $(PYTHON) -m venv $(1) && cp -Rl .venv/$(SITE)/torch* .venv/$(SITE)/functorch $(1)/$(SITE)/; }
endef

# TRL, verl and vLLM agree on one environment, whose list of packages is complete.
HARNESS := tests/integrations/harness/vllm_on_cpu
.venv-trainers/ready: .venv/ready tests/integrations/requirements.txt $(HARNESS)/pyproject.toml $(HARNESS)/vllm_on_cpu.py
	$(call with-torch,.venv-trainers)
	.venv-trainers/bin/pip $(INSTALL) --no-deps -r tests/integrations/requirements.txt
	.venv-trainers/bin/pip $(INSTALL) --no-deps --no-build-isolation ./$(HARNESS) -e . -e ./studies
	touch $@

.venv-trl-old/ready: .venv/ready tests/integrations/trl/requirements-old.txt
	$(call with-torch,.venv-trl-old)
	.venv-trl-old/bin/pip $(INSTALL) "$$(grep '^torch==' requirements.lock)"
	.venv-trl-old/bin/pip $(INSTALL) -r tests/integrations/trl/requirements-old.txt
	.venv-trl-old/bin/pip $(INSTALL) --no-deps -e ./studies
	touch $@

# It sees the packages of .venv-trainers behind its own. site.addsitedir reads their .pth files too, such as that of this clone.
.venv-engines/ready: .venv-trainers/ready tests/integrations/engines/requirements.txt
	$(PYTHON) -m venv --clear .venv-engines
	.venv-engines/bin/pip $(INSTALL) --no-deps -r tests/integrations/engines/requirements.txt
	echo "import site; site.addsitedir('$$(echo $(CURDIR)/.venv-trainers/$(SITE))')" > "$$(echo .venv-engines/$(SITE))/trainers.pth"
	touch $@

.venv-docs/ready: pyproject.toml studies/pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip $(INSTALL) '.[docs]'
	.venv-docs/bin/pip $(INSTALL) --no-deps ./studies
	touch $@

clean:
	rm -rf .venv .venv-trainers .venv-docs .venv-trl-old .venv-engines build runs
