"""What compiling did, for people: explain, logs, dumps and statistics.

Everything here reads `capture.session.Compilation` and `dynajit.backend.GraphRecord`; nothing
here influences what is compiled.
"""
