"""The result of a backtest or a search for a person: one screen of text, and one HTML page.

`runtime/history` computes the figures; `commands` parses the request.
"""
