"""One question a file, asked of an answer and the wanted text.  Pure: nothing here runs or times anything."""
