"""How the broker speaks, without I/O. Used from both ends: the client decodes, the sandbox encodes.

Facts are those of the broker's open API, version 0.2.0-preview.3 (description of 2026-08-21).
"""
