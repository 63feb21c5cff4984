"""Readers of document formats, one file each; `documents.FORMATS` maps the ending of a file's name to its reader."""
