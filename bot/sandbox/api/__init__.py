"""The house over HTTP: the ASGI application, keys, nonces and quota, and the calls with an account.

The calls about the market at large are in `sandbox/library/`.
"""
