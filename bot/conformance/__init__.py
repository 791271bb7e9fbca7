"""`bot conformance`: does a server speak the API as the document describes it?"""
