"""Whatever is sent, allowed by the description or not, the server answers as the description says."""

from __future__ import annotations

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from laplacianshot.labeling.sources import open_source
from laplacianshot.studio.app import create_app
from laplacianshot.studio.server import open_session
from laplacianshot.web.access import Gate
from tests.studio.conftest import PORT, TOKEN

HEADERS = {"authorization": f"Bearer {TOKEN}", "host": f"127.0.0.1:{PORT}"}
# Of each operation. The suite is to be quick; ask for more with LAPLACIANSHOT_EXAMPLES=500.
EXAMPLES = int(os.environ.get("LAPLACIANSHOT_EXAMPLES", "12"))


@pytest.fixture
def described(user_cache_here, two_groups):
    """The description of an application on a few vectors."""
    with open_session(open_source(two_groups)) as session:
        app = create_app(session, Gate(TOKEN, "127.0.0.1", PORT))
        yield schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=HEADERS)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "not allowed"])
def test_every_answer_is_as_described(described, mode):
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) >= 18
    for operation in operations:

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode))
        def answer_is_as_described(case):
            # Any bytes may be sent as a file of labels; which of them are one the description cannot say.
            left_out = [positive_data_acceptance] if case.path == "/api/import" else []
            case.call_and_validate(headers=HEADERS, excluded_checks=left_out)

        try:
            answer_is_as_described()
        except Unsatisfiable:
            # Where nothing is asked for, nothing can be wrong.
            assert mode is GenerationMode.NEGATIVE
        except Exception as error:
            error.add_note(f"at {operation.label}")
            raise
