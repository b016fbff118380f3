"""How statements reach PostgreSQL: connections, migrations, rows for COPY, and the driver's errors as ours."""
