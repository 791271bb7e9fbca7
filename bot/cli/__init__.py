"""What a person types and reads.

Commands show and ask; they decide nothing.
"""
