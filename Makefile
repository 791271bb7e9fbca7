.DEFAULT_GOAL := help
.PHONY: help demo test check prove prove-safety simulate figures lock sbom setup

help:
	@echo "make demo    trades against the built-in sandbox broker"
	@echo "make test    the tests, on loopback only, but for those marked long"
	@echo "make check   lint, format, types, import contracts"
	@echo "make prove   long runs: every interleaving of a send, storms of faults and kills, many days"
	@echo "make prove-safety  of these, that no order is lost and none doubled: ten minutes on two cores"
	@echo "make simulate  SEEDS=200: so many stories of faults, each from one number; SEED=7: that one"
	@echo "make figures fails when the way to an order is half as quick as it was (bench/README.md)"
	@echo "make lock    resolves the dependencies again into requirements.lock; nothing younger than 7 days"
	@echo "make sbom    lists what the lock installs as CycloneDX: dist/vnbot.cdx.json"

setup:
	@sh scripts/setup.sh

demo: setup
	@.venv/bin/bot demo

# Tests start many processes: they share what one of them has compiled. A module's tests stay
# together as long as all workers have some, so that what they share is made once. On two cores
# four workers: many tests wait for a process, a lease or a time-out. What they all import is
# compiled before, lest each of them does it.
test: setup
	@.venv/bin/python -m compileall -q -j 0 bot
	@env -u PYTHONDONTWRITEBYTECODE FAULT_COUNTS=$(COUNTS)/test.json \
		.venv/bin/pytest -n 4 --dist worksteal -m "not long"

# How often each fault struck in a run of tests, a file for each; git ignores build/.
COUNTS := build/faults

check: setup
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports

# Each run names its seed; what it counted is printed, and any disagreement ends it; so does a run
# that hangs, after PROOF_S_MAX, where there is a `timeout`. First what uses every core by itself,
# then the others two at a time, each one's lines together. At the end it fails for a
# fault that struck neither in a long test nor in `make test`, if that was run before.
PROOF_S_MAX = 1500
PROOF = $(if $(shell command -v timeout),timeout --foreground -k 10 $(PROOF_S_MAX)) \
	.venv/bin/python -W ignore -m
IN_BLOCKS = $(if $(filter output-sync,$(.FEATURES)),-O)
prove: setup
	@env -u PYTHONDONTWRITEBYTECODE FAULT_COUNTS=$(COUNTS)/long.json .venv/bin/pytest -q -n 3 \
		--timeout 300 -m long --ignore tests/faults
	@$(MAKE) --no-print-directory prove-safety FAULTS="-m long tests/faults"
	@env -u PYTHONDONTWRITEBYTECODE STORM_SEEDS=0-29 .venv/bin/pytest -q -n 2 \
		--timeout 300 tests/simulation/test_storms.py
	@env -u PYTHONDONTWRITEBYTECODE AMEND_SEEDS=0-1 ANSWERS_SHARE=1 .venv/bin/pytest -q -n 2 \
		--timeout 300 tests/simulation/test_amend_storms.py tests/protocol/test_common_form.py
	@$(MAKE) --no-print-directory -j 2 $(IN_BLOCKS) $(PROOFS)
	@.venv/bin/python -m tests.faults.strikes $(COUNTS)/test.json $(COUNTS)/long.json \
		$(COUNTS)/faults.json

PROOFS = prove-money prove-days prove-journal prove-outage prove-power prove-halts prove-exchange \
	prove-gears prove-standstills

# That no order is lost and none doubled, in ten minutes on two cores. In `prove` only the fault
# tests that are long: `make test` has the others.
SAFETY_S_WANTED = 600
FAULTS = tests/faults $(shell grep -o '[a-z0-9_/]*\.py::[a-zA-Z0-9_]*' tests/faults/catalogue.yaml \
	| grep -v '^faults/' | sort -u | sed 's,^,tests/,')
prove-safety: setup
	@begun=$$(date +%s); took=; \
	for parts in prove-faults prove-stories "$(IN_BLOCKS) prove-kills prove-model"; do \
		since=$$(date +%s); \
		$(MAKE) --no-print-directory -j 2 $$parts || exit; \
		took="$$took, $${parts#-O } $$(($$(date +%s) - since)) s"; \
	done; \
	echo "safety: $$(($$(date +%s) - begun)) s, $(SAFETY_S_WANTED) s are wanted$$took"

prove-faults:
	@env -u PYTHONDONTWRITEBYTECODE FAULT_COUNTS=$(COUNTS)/faults.json .venv/bin/pytest -q -n 5 --dist worksteal \
		--timeout 300 $(FAULTS)
prove-stories:
	@$(PROOF) tests.simulation.simulate 200
prove-model:
	@$(PROOF) tests.model.explore
prove-money:
	@env -u PYTHONDONTWRITEBYTECODE NIGHTS=2 .venv/bin/pytest -q --timeout 300 \
		tests/scenarios/test_money.py tests/scenarios/test_days.py tests/scenarios/test_closes.py
	@$(PROOF) tests.engine.risk.limit_streams 3000
prove-days:
	@$(PROOF) tests.simulation.sixty_days 12 3
	@$(PROOF) tests.simulation.recorded_days 6
prove-journal:
	@$(PROOF) tests.simulation.order_chains 120 3
	@$(PROOF) tests.journal.tampering 200 7
	@$(PROOF) tests.security.yaml_fuzz 2000
prove-outage:
	@$(PROOF) tests.simulation.expiries 20
	@$(PROOF) tests.simulation.whole_demo 2
prove-kills:
	@$(PROOF) tests.crash.kills 50 1
prove-power:
	@command -v cc >/dev/null || { echo "no C compiler: power is not cut here"; exit 0; }; \
	$(PROOF) tests.crash.power 20 1
# Without a C compiler it says that the sleep of the machine is left out.
prove-standstills:
	@$(PROOF) tests.crash.standstills 3
prove-halts:
	@$(PROOF) tests.faults.halts 40 1
prove-exchange:
	@$(PROOF) tests.sandbox.exchange.test_sixty_days 60 4
	@$(PROOF) tests.sandbox.exchange.test_long_run 100000 4
	@$(PROOF) tests.engine.test_rulebook_agreement 100000 4
prove-gears:
	@$(PROOF) tests.runtime.history.backtest.gears 100

# SEEDS=200: the first so many; SEEDS=40-59: those; SEED=7: one, with all that happened in it.
SEEDS ?= 200
simulate: setup
	@.venv/bin/python -W ignore -m tests.simulation.simulate $(if $(SEED),--seed $(SEED) $(LEFT_OUT),$(SEEDS))

# Ratios of medians in one run: noise is far from a factor of two.
figures: setup
	@.venv/bin/python -W ignore -m bench.figures --rounds 3 --check

lock:
	@sh scripts/setup.sh lock

sbom: setup
	@.venv/bin/python scripts/sbom.py
