"""The broker's protocol, without I/O. The client uses one side of it, the sandbox the other.

It follows the broker's open API, version 0.2.0-preview.3 (description of 2026-08-21).
"""
