"""What you type and what you read.

Commands show and ask; they decide nothing.
"""
