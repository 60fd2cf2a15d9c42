"""The commands as `fewpass --help` lists them, in groups; those of a day's work come first.

Each is where its function lies in `fewpass.flows.commands`, and the first line of its docstring.
The modules are imported when their commands run: `--version` and `--help` wait for none.
"""

Commands = dict[str, str]

EVERYDAY: Commands = {
    "ingesting:ingest": (
        "Read a table, text or arrays into a data set: rows in random order, with checksums."
    ),
    "training:train": "Train a model on a data set, in one pass or to a tolerance (--tol).",
    "training:resume": (
        "Continue a training that was interrupted; the model will be the same, bit for bit."
    ),
    "evaluating:evaluate": "Evaluate a run's model on a data set, such as the rows held out.",
    "predicting:predict": (
        "Predict every row of a file or data set, into a .parquet, .csv or .npy file or a table."
    ),
    "run_report:report": (
        "Report on a run: as text and curves in RUN/report, or as a page (--html)."
    ),
}
LOOKING: Commands = {
    "plan:plan": (
        "Predict what a training takes: passes, bytes, memory and time; suggest what would help."
    ),
    "weights:weights": (
        "List the largest weights of a run's model, with the names of the features."
    ),
    "explaining:explain": (
        "Tell what every column contributes to the scores of rows: base + contributions = score."
    ),
    "shapes_of_run:shapes": (
        "List what the columns and pairs of an additive model add to its scores."
    ),
    "comparing_runs:compare": (
        "Compare the models of runs on the same rows: differences from the first, with intervals."
    ),
    "cross_validating:cross_validate": (
        "Cross-validate a training: a model for each fold, all in the same passes, each certified."
    ),
    "methods:methods": (
        "List the training methods, or show what one of them needs and its settings."
    ),
    "inspecting:inspect": "Show what a data set, a run or a snapshot contains.",
    "dataset_head:head": (
        "Show the first rows of a data set: names, values where they are known, label and weight."
    ),
    "inspecting:verify": (
        "Check every byte of a data set or run; name what is damaged, "
        "and exit with 1 if anything is."
    ),
    "inspecting:dashboard": "Serve a page on 127.0.0.1 that shows how runs are going.",
}
OTHERS: Commands = {
    "changing_data:append": (
        "Append the rows of files to a data set: a new generation of it, by the same recipe."
    ),
    "changing_data:forget": (
        "Delete rows of a data set for good, and name the models that have learnt from them."
    ),
    "exporting:export": (
        "Write a run's model for other programs: .onnx, .sql, .json, .mlflow and others."
    ),
    "ingesting:columns": ("Store a data set by column as well, in files that --solver simba maps."),
    "warming:warm_up": ("Compile the usual kernels in advance, for container images and services."),
    "doctor:doctor": ("Find runs whose process has died, free them, and say how to continue them."),
    "probing:health": (
        "Look whether places are in order, and exit with 1 where one is not: a probe's command."
    ),
    "cleaning:clean": (
        "Remove old generations of a store, old runs of a schedule, old artifacts of Prefect."
    ),
    "demo:demo": "Go through a whole job on generated data larger than the memory limit.",
}
#: What `fewpass store` does, by the name of the command.
STORE = {
    "list": ("store:listed", "List the models of a store, which one is published, and why."),
    "publish": ("store:publish", "Publish the model of a generation, newer or older."),
    "take": ("store:take", "Have a generation learnt from that waits or is set apart."),
    "abandon": ("store:abandon", "Give up the generation that is not finished."),
    "forget": ("changing_data:forget", "Delete rows of all generations for good."),
    "clean": ("cleaning:clean", "Remove old generations."),
}
