"""HTTP, server-sent events and a web page over one engine; MCP and OpenAI's API are served beside it.

In: requests of programs, assistants and browsers. Out: the JSON documents of the command line.
Open `app` first (routes), then `bodies` (requests made from operations) and `service` (runs operations with the
caller's rights). `host_check` rejects foreign hosts and large bodies, `auth` maps tokens to rights (of a file,
`tokens_file`, or of an issuer, `oidc`); `events` streams answers, `failures` maps errors to statuses,
`probes` has health and metrics, `server` runs it all.
"""
