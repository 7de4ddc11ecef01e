"""The `drive` command: one module per sub-command, imported only when chosen."""
