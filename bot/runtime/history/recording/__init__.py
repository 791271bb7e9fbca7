"""A run on disk, call by call, and the same calls made again.

Not here: what the calls decide. That is the engine's, which is only fed once more.
"""
