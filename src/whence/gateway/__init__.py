"""The gateway: HTTP, server-sent events, MCP and a web page over one engine.

In: requests of programs, assistants and browsers. Out: the JSON documents of the command line.
Open `app` first (routes), then `service` (calls the engine with the caller's rights). `host_check` rejects
foreign hosts and large bodies, `auth` maps tokens to rights (of the tokens file, `tokens_file`, or of an
identity provider, `oidc`), `requests` defines the request bodies for HTTP, MCP (`mcp`) and `openapi`; `events`
streams answers, `failures` maps errors to statuses, `openai` has the interface of OpenAI's API, `server` runs
it all.
"""
