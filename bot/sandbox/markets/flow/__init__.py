"""The order flow of tens of symbols: investors who come and go by themselves.

Calibrated on recorded days; a scripted market is the crowd's, beside this room.
"""
