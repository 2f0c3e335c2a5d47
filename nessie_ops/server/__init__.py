"""The HTTP server: Nessie REST API v2 at `/api/v2`, Iceberg REST at `/iceberg`."""
