"""What fewpass promises of faults, and what it does not."""

from __future__ import annotations

PROMISES = {
    "P1": "A training that is killed at any moment loses at most the work since its last "
    "snapshot. Continued, it ends with the same bits as if nothing had happened.",
    "P2": "An ingest, a column copy, a file of predictions and a refresh that are killed leave "
    "nothing that looks complete and is not. The same command again ends with the same bytes.",
    "P3": "When a write, an fsync, a rename, an open or another call fails, fewpass says where it "
    "failed, and the same command again ends with the same bits.",
    "P4": "What a power cut takes is only what was not brought to the disk. Nothing that is left "
    "is false: the same command again ends with the same bits.",
    "P5": "Any changed bit, cut, deletion, exchange or older version of any stored object is "
    "named, or healed with the same bits. A wrong model does not come of it.",
    "P6": "The certificate is true: no model is further above the optimum than it says.",
    "P7": "Documents that lie are refused with a sentence: no crash, no hang, no memory beyond "
    "the budget.",
    "P8": "A stranger's run, data set or configuration runs no code, and nothing is read or "
    "written outside its folder.",
    "P9": "A password or a token in an address is not stored, printed or logged.",
    "P10": "Nothing that fewpass starts listens to anything but 127.0.0.1.",
    "P11": "Of a source on the web all bytes are read that it has, of one version of it, or the "
    "command says which source it is and what came instead.",
    "P12": "A file of any format that is damaged, or made to do harm, is read as far as it says "
    "something, or refused by its name in a sentence: no crash, no hang, no memory beyond the "
    "budget, and no row of text that is neither read nor counted.",
    "P13": "No file makes a command take more memory than its budget (`--memory`) and the "
    "libraries, nor minutes to find that out: what a file makes its reader have at once (a line, "
    "a row, a page, a batch, a window of its compression, a description of every column) is taken "
    "within the budget, or refused before it is taken, with the file, the size and the budget "
    "that would do. The libraries are what a command takes for a small file of the same kind "
    "with kernels compiled before. Beside the budget, and not counted here, are kernels that are "
    "compiled for the first time on a machine, frames and arrays that a caller of the estimators "
    "holds itself, and blocks that Dask computes.",
    "P14": "A compiled kernel that was damaged on disk is not run: it is named, compiled anew and "
    "replaced, and the command ends with the same bits.",
}

#: Each in a few words.
SHORT = {
    "P1": "killed trainings",
    "P2": "other commands, killed",
    "P3": "calls that fail",
    "P4": "power cuts",
    "P5": "damaged objects",
    "P6": "certificates",
    "P7": "documents that lie",
    "P8": "strangers' files",
    "P9": "secrets in addresses",
    "P10": "open sockets",
    "P11": "web sources",
    "P12": "damaged files to read",
    "P13": "memory",
    "P14": "damaged kernels",
}

NOT_PROMISED = (
    (
        "A malicious process of the same user: it can change a file between two reads, or the "
        "program itself."
    ),
    (
        "A forger who knows the format: seals and checksums find accidents and exchanges, and anybody "
        "can compute them. A data set or a run from a stranger may be wrong; it runs no code and "
        "crashes nothing."
    ),
    "Bits that flip in memory or in the processor.",
    "A disk, a controller or a network file system that says a write is durable when it is not.",
    (
        "An object store without whole puts and reads that see them; a lease on a store without "
        "conditional puts keeps honest processes apart only if they do not start at the same moment."
    ),
    (
        "Work since the last snapshot (`--snapshot-every`, 30 seconds by default), and the parts of a "
        "log that a power cut takes: a log is for people, nothing is computed from it."
    ),
    (
        "The same bits with another version of fewpass, NumPy or numba, or on a processor of another "
        "kind."
    ),
    "Objects that the user or another program changes while they are being read.",
    (
        "Prefect, Dask and the web browser: what they keep and show is theirs, and so are their "
        "faults."
    ),
)
