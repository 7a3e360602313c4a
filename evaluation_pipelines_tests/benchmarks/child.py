"""The fresh process: imports ``module:function``, then times one call of it.

``python -m evaluation_pipelines_tests.benchmarks.child MODULE:FUNCTION JSON_ARGUMENTS``
"""

import importlib
import json
import sys
from time import perf_counter


def main(target: str, arguments: str) -> None:
    """Print seconds and answer as the last line, in JSON."""
    module_name, _, function_name = target.partition(":")
    module = importlib.import_module(f"{__package__}.{module_name}")
    function = getattr(module, function_name)
    began = perf_counter()
    answer = function(**json.loads(arguments))
    seconds = perf_counter() - began
    sys.stdout.write(json.dumps({"seconds": seconds, "answer": answer}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
