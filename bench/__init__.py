"""Figures for people, made by hand; no test is timed."""
