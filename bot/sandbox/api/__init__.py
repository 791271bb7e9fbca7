"""The house over HTTP: the ASGI application, keys, nonces and quota, and the account calls.

Calls about the market at large are in `sandbox/library/`.
"""
