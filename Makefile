.DEFAULT_GOAL := help
.PHONY: help demo test check prove simulate figures lock sbom setup

help:
	@echo "make demo    trades against the built-in sandbox broker"
	@echo "make test    the tests, on loopback only, but for those marked long"
	@echo "make check   lint, format, types, import contracts"
	@echo "make prove   long runs: every interleaving of a send, storms of faults and kills, many days"
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
# three workers: many tests wait for a process, a lease or a time-out. What they all import is
# compiled before, lest each of them does it.
test: setup
	@.venv/bin/python -m compileall -q -j 0 bot
	@env -u PYTHONDONTWRITEBYTECODE .venv/bin/pytest -n 3 --dist worksteal -m "not long"

check: setup
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports

# Each run names its seed; what it counted is printed, and any disagreement ends it. First what
# uses every core by itself, then the others two at a time, each one's lines together.
prove: setup
	@env -u PYTHONDONTWRITEBYTECODE .venv/bin/pytest -q -n 3 --timeout 300 -m long
	@.venv/bin/python -W ignore -m tests.simulation.simulate 200
	@env -u PYTHONDONTWRITEBYTECODE STORM_SEEDS=0-29 .venv/bin/pytest -q -n 2 \
		--timeout 300 tests/simulation/test_storms.py
	@env -u PYTHONDONTWRITEBYTECODE AMEND_SEEDS=0-1 ANSWERS_SHARE=1 .venv/bin/pytest -q -n 2 \
		--timeout 300 tests/simulation/test_amend_storms.py tests/protocol/test_common_form.py
	@$(MAKE) --no-print-directory -j 2 $(if $(filter output-sync,$(.FEATURES)),-O) $(PROOFS)

PROOFS = prove-model prove-money prove-days prove-journal prove-outage prove-kills prove-power \
	prove-halts prove-exchange prove-gears

prove-model:
	@.venv/bin/python -W ignore -m tests.model.explore
prove-money:
	@env -u PYTHONDONTWRITEBYTECODE NIGHTS=2 .venv/bin/pytest -q --timeout 300 \
		tests/scenarios/test_money.py tests/scenarios/test_days.py tests/scenarios/test_closes.py
	@.venv/bin/python -m tests.engine.risk.limit_streams 3000
prove-days:
	@.venv/bin/python -m tests.simulation.sixty_days 12 3
	@.venv/bin/python -W ignore -m tests.simulation.recorded_days 6
prove-journal:
	@.venv/bin/python -W ignore -m tests.simulation.order_chains 120 3
	@.venv/bin/python -W ignore -m tests.journal.tampering 200 7
	@.venv/bin/python -m tests.security.yaml_fuzz 2000
prove-outage:
	@.venv/bin/python -W ignore -m tests.simulation.expiries 20
	@.venv/bin/python -W ignore -m tests.simulation.whole_demo 2
prove-kills:
	@.venv/bin/python -m tests.crash.kills 50 1
prove-power:
	@.venv/bin/python -W ignore -m tests.crash.power 20 1
prove-halts:
	@.venv/bin/python -W ignore -m tests.faults.halts 40 1
prove-exchange:
	@.venv/bin/python -m tests.sandbox.exchange.test_sixty_days 60 4
	@.venv/bin/python -m tests.sandbox.exchange.test_long_run 100000 4
	@.venv/bin/python -m tests.engine.test_rulebook_agreement 100000 4
prove-gears:
	@.venv/bin/python -m tests.runtime.history.backtest.gears 100

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
