"""Faults on purpose: what fewpass promises, what is done to it, and what came of it.

    promises.py   the promises, and what is not promised
    subjects.py   the commands that are tried, on data of some hundred rows
    sandbox.py   folders as those commands leave them, and the bits of a run without a fault
    starter.py    a process that imports everything once and forks one child per case
    child.py      what such a child does: watched, with a call that fails, or a signal at a moment
    recorder.py   what a power cut would leave: the content and the names that were fsynced
    damage.py     one bit, a cut, a deletion, an exchange, an older version
    hostile.py    forged documents, sealed as an attacker can seal them
    small_files.py, mutations.py, fuzzing.py
                  files of every format, changed at random, and read
    truth.py      the optimum, found without fewpass
    verdict.py    what counts as kept and what as broken
    families.py   every case there is, by promise
    campaign.py   many cases at once, counted; page.py: a page made of the counts

`make test` tries a sample, the same one every time; `make faults` tries all.
"""
