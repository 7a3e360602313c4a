"""The targets of the fuzzer hold for their seeds, and for seeds that are cut anywhere."""

from pathlib import Path

from evaluation_pipelines_tests.fuzzing.targets import targets


def test_every_target_holds_for_its_seeds_whole_and_cut(tmp_path: Path) -> None:
    for target, seeds in targets(tmp_path).values():
        for seed in seeds[:10]:
            for cut in (0, len(seed) // 3, len(seed) - 1, len(seed)):
                target(seed[:cut])
