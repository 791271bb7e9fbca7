"""What trading is: frozen values, order states, rules as data, every event and command. Pure.

No clock, disk or network, and nothing about a broker, a database or a screen.
"""
