"""The order flow of dozens of symbols: independent simulated investors.

Calibrated on recorded days; scripted markets use the crowd instead (`markets/simulated.py`).
"""
