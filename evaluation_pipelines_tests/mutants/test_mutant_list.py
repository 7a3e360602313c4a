"""The list of mutants fits the project as it is."""

import ast
import re

import pytest

from evaluation_pipelines_tests.mutants.mutant_list import ROOT, Mutant, mutants


def test_every_mutant_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in mutants()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_planted_and_its_tests_exist(mutant: Mutant) -> None:
    text = mutant.mutated(ROOT)
    assert mutant.old != mutant.new
    if mutant.file.endswith(".py"):
        ast.parse(text)
    assert mutant.tests
    for named in mutant.tests:
        file, _, test = named.partition("::")
        assert re.search(rf"^def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
