.DEFAULT_GOAL := help
.PHONY: help demo test check lock setup

help:
	@echo "make demo    trades against the built-in sandbox broker"
	@echo "make test    all tests, on loopback only"
	@echo "make check   lint, format, types, import contracts"
	@echo "make lock    resolves the dependencies again into requirements.lock"

setup:
	@sh scripts/setup.sh

demo: setup
	@.venv/bin/bot demo

# Tests start many processes: they share what one of them has compiled. A module's tests stay
# together as long as both workers have some, so that what they share is made once.
test: setup
	@env -u PYTHONDONTWRITEBYTECODE .venv/bin/pytest -n 2 --dist worksteal

check: setup
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports

lock:
	@sh scripts/setup.sh lock
