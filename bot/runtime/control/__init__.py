"""How an operator's commands reach the running bot: the socket, its words, and their answers.

What the commands do is the engine's matter, what they print is the command line's.
"""
