"""The small evaluation of tests/hopgraph/evaluation."""

from tests.hopgraph.evaluation.conftest import hopgraph, questions  # noqa: F401
