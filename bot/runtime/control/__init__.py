"""How an operator's commands reach the running bot: the socket, its requests, and their answers.

The engine carries the commands out; the command line prints the answers.
"""
