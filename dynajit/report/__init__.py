"""What compiling did, for people: explain, logs, dumps and statistics.

Everything here reads `capture.entry.session.Compilation` and `dynajit.driver.launches.GraphRecord`;
nothing here influences what is compiled.
"""
