"""Coverage-guided fuzzing of what parses untrusted text; needs ``pip install atheris``.

``python -m evaluation_pipelines_tests.fuzzing TARGET FOLDER [-max_total_time=SECONDS]`` runs one of
the targets until it fails or the time is over. FOLDER is the corpus: it begins with the seeds of
the target and keeps every input that reaches new code. Options are those of libFuzzer.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["evaluation_pipelines"]):
    from evaluation_pipelines_tests.fuzzing.targets import targets

name, corpus, *options = sys.argv[1:]
with tempfile.TemporaryDirectory() as temporary:
    target, seeds = targets(Path(temporary))[name]
    Path(corpus).mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (Path(corpus) / f"seed-{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], corpus, *options], target)
    atheris.Fuzz()
