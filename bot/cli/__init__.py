"""The command line: what you type and what you read.

Commands show and ask; they decide nothing.
"""
