"""What trading is: frozen values, events and commands. Pure; knows no clock, disk or network."""
