"""The embedded PostgreSQL server of a home folder.

In: a home. Out: the URL of a running server that all processes with that home share. Open `server.py` first.

- `server.EmbeddedServer`: joins, starts, restarts and leaves the server, under kernel locks (`locks`,
`backoff`). - `process`: the data directory, the server's process, its account and log, through the script
`launcher`. - `home`: layout and version of the folder. `binaries`, `tuning`: programs and settings of the
server.

Other packages use `server`, and `home` to look without starting anything.
"""
