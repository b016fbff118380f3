"""The embedded PostgreSQL server of a home folder.

In: a home. Out: the URL of a running server that all processes with that home share. Open `server.py` first.

- `server.EmbeddedServer`: joins, starts, restarts and leaves the server, under kernel locks (`locks`).
- `process`: the data directory, the programs, the server's process and log, through the script `launcher`.
- `home`: layout and version of the folder. `tuning`: settings of the server.

Other packages use `server`, and `home` to look without starting anything.
"""
