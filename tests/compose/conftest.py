import pytest
import torch


@pytest.fixture(autouse=True)
def fresh_dynamo():
    """No compiled code of another test, and its settings as they were."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(optimize_ddp=True):
        yield
    torch._dynamo.reset()
