"""Storage only: rows and snapshots on local disks and object stores, as plain Zarr."""
