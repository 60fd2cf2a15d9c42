"""The Prefect flows: what to run as tasks that a schedule starts and a server watches.

Prefect's state is a view.  Whatever a flow needs to go on lies in the run folder, so a flow that
died is simply run again; no result is cached.
"""
