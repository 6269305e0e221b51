"""What each word of the command line does; `cli` parses and calls it.

Importing this package costs nothing: each command imports what it needs when it runs, so that asking a server never
waits for the libraries of a model.
"""
