"""Names of the files that `nearkin run` keeps in its run folder; a new output adds its name here.

`nearkin.app.pipeline` makes them, `nearkin.app.finished_run` reads those that other commands need.
"""

ENCODER, FEATURES = "encoder.safetensors", "features.npy"
IMAGES = "images.json"  # paths, labels, which were skipped; written with the features
SPLIT = "split.npz"
PREPROCESS, RETRIEVAL = "preprocess.safetensors", "retrieval.safetensors"
NEIGHBORS = "neighbors.npz"
MODEL = "model.safetensors"
EVALUATION, BASELINES = "evaluation.json", "baselines.json"
TIMING = "timing.json"  # apart from the evaluation, which is the same each time
REPORT = "report.html"

EXTRACTION, LEARNING = "extraction", "learning"  # sections of the run folder, for unfinished work
