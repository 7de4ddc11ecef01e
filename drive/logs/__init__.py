"""Log store: py123d Arrow logs as DriveLog, ingest of datasets, and fault checks."""

from drive.logs.check import CheckReport, check_logs
from drive.logs.faults import Fault, faulty_steps, find_faults
from drive.logs.ingest import IngestReport, ingest_nuscenes, ingest_py123d
from drive.logs.reader import list_drives, read_drive
from drive.logs.writer import write_drive

__all__ = [
    "CheckReport",
    "Fault",
    "IngestReport",
    "check_logs",
    "faulty_steps",
    "find_faults",
    "ingest_nuscenes",
    "ingest_py123d",
    "list_drives",
    "read_drive",
    "write_drive",
]
