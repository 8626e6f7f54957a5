import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    # Small networks on a shared machine: more threads would only wait for each other.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
