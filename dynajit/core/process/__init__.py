"""The state of the process: configuration, threads, warnings, libraries that are loaded late."""
