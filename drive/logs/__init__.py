"""Log store: py123d Arrow logs as DriveLog, ingest of datasets, and fault checks."""

from drive.logs.reader import list_drives, read_drive
from drive.logs.writer import write_drive

__all__ = ["list_drives", "read_drive", "write_drive"]
