"""How entries become rows, once, in order and durable: the one writer, its lease and its chains.

Nothing here answers a question of a person; `journal/reading/` does.
"""
