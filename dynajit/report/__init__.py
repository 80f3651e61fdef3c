"""What compiling did, for people: explain, logs, dumps and statistics.

Reports read `capture.entry.session.Compilation` and `dynajit.driver.launches.GraphRecord`; nothing
here influences what is compiled. `stubs` writes the stubs of the package for type checkers.
"""
