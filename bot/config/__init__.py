"""Files and environment become checked values here, and what is wrong is said with place and hint.

Nothing is run, sent or journalled here. Settings and checks of the parts themselves stay with them.
"""
