"""Benchmarks, run by hand for people; no test is timed."""
