"""Rows as methods see them: windows, the thread that reads them, rows that stay in memory."""
