"""What a scenario can break: which request a fault strikes, and how an answer is spoilt.

Where in a request it strikes stands in `sandbox/api/`.
"""
