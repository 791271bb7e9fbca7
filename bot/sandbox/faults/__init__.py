"""What a scenario can break: which request a fault strikes, and how an answer is spoilt.

How it interferes with the HTTP answer is in `sandbox/api/`.
"""
