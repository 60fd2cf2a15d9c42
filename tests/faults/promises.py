"""What fewpass promises of faults, and what it does not."""

from __future__ import annotations

PROMISES = {
    "P1": "A training that is killed at any moment loses at most the work since its last "
    "snapshot. When resumed, it ends with the same bits as without interruption.",
    "P2": "An ingest, a column copy, a file of predictions or a refresh that is killed leaves "
    "nothing incomplete that looks complete, and an append or a forget leaves the data set of before "
    "or the new one. The same command again ends with the same bytes. Of two changes at once each is "
    "made whole, one after the other, or refused.",
    "P3": "If a write, an fsync, a rename, an open or another call fails, fewpass reports where, "
    "and the same command again ends with the same bits.",
    "P4": "A power cut loses only data not yet flushed to disk. The rest is valid: the same "
    "command again ends with the same bits.",
    "P5": "Any changed bit, truncation, deletion, exchange or older version of any stored object is "
    "reported by name, or healed with the same bits. It never leads to a wrong model.",
    "P6": "Certificates are true: the objective of a model is never further above the optimum.",
    "P7": "Forged documents are refused with a message: no crash, no hang, no memory beyond "
    "the budget.",
    "P8": "A run, data set or configuration of a stranger executes no code, and nothing is read or "
    "written outside its folder.",
    "P9": "A password or a token in an address is not stored, printed or logged.",
    "P10": "Servers that fewpass starts listen on 127.0.0.1 only.",
    "P11": "A source on the web is copied to the temporary folder completely and in one version, or "
    "the command reports the source and what was received instead.",
    "P12": "A damaged or malicious file of any format is read as far as it is valid, or refused by "
    "name with a message: no crash, no hang, no memory beyond that of P13, and no row of text "
    "that is neither read nor counted.",
    "P13": "No file of text makes a command use more memory than its budget (`--memory`) and the "
    "libraries, or run for minutes before it is refused: parts of a file that must be in memory "
    "at once (a line, a row, a dictionary of xz, a description of every column) fit into the "
    "budget, or are refused before they are allocated, with the file, the size and a sufficient "
    "budget. Of a Parquet or Arrow file the parts that pyarrow has in memory at once come on top: "
    "its description of the columns, a page or a batch, decoded, up to five times as large (a "
    "single cell of text in a dictionary), mostly once or twice. Their rows are cut to the budget, "
    "and a row that does not fit is refused then. Whoever reads files of strangers in a small "
    "container sets a limit of memory there. The memory of the libraries is that of the same "
    "command for a small file with compiled kernels. Not included are the first compilation of "
    "kernels on a machine, frames and arrays of a caller of the estimators, and blocks that Dask "
    "computes.",
    "P14": "A compiled kernel that is damaged on disk is not run: it is reported, compiled again and "
    "replaced, and the command ends with the same bits.",
    "P15": "One row has one score, in whatever form it comes and whoever scores it (single rows, lists, "
    "frames, files, exports), or is refused by all.",
}

#: Short names.
SHORT = {
    "P1": "killed trainings",
    "P2": "other commands, killed",
    "P3": "calls that fail",
    "P4": "power cuts",
    "P5": "damaged objects",
    "P6": "certificates",
    "P7": "forged documents",
    "P8": "strangers' files",
    "P9": "secrets in addresses",
    "P10": "open sockets",
    "P11": "web sources",
    "P12": "damaged files to read",
    "P13": "memory",
    "P14": "damaged kernels",
    "P15": "odd cells",
}

NOT_PROMISED = (
    (
        "A malicious process of the same user: it can change a file between two reads, or the "
        "program itself."
    ),
    (
        "A forger who knows the format: seals and checksums detect accidents and exchanges, but anybody "
        "can compute them. A data set or a run of a stranger may be wrong, but it executes no code and "
        "causes no crash."
    ),
    "Bits that flip in memory or in the processor.",
    "A disk, a controller or a network file system that reports a write as durable when it is not.",
    (
        "An object store without atomic puts and consistent reads; a lease on a store without "
        "conditional puts separates processes only if they do not start at the same moment."
    ),
    (
        "Work since the last snapshot (`--snapshot-every`, 30 seconds by default), and parts of a "
        "log lost in a power cut: a log is for people, nothing is computed from it."
    ),
    (
        "The same bits with another version of fewpass, NumPy or numba, or on another type of "
        "processor."
    ),
    "Objects that the user or another program changes while they are being read.",
    ("Prefect, Dask and the web browser: their data, their displays and their faults."),
)
