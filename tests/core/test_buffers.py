"""Buffers: a copy stays while somebody holds it; its memory is used again afterwards."""

import torch

from dac_rocm.buffers import Buffers


def numbers(n, start=0):
    return torch.arange(start, start + n, dtype=torch.float32)


def test_a_copy_that_is_held_stays_as_it_is():
    buffers = Buffers()
    held = [buffers.keep(numbers(4, i)) for i in range(5)]
    for i, copy in enumerate(held):
        assert torch.equal(copy, numbers(4, i))
    assert len({copy.data_ptr() for copy in held}) == 5


def test_memory_of_a_copy_that_has_gone_is_used_again():
    buffers, seen = Buffers(), set()
    now = None
    for i in range(20):
        before, now = now, buffers.keep(numbers(100, i))
        seen.add(now.data_ptr())
        assert before is None or torch.equal(before, numbers(100, i - 1))
    assert len(seen) == 3  # the new one is made while `now` and `before` are held


def test_other_shapes_get_memory_of_their_own():
    buffers = Buffers()
    for n in (3, 7, 0, 3):
        assert torch.equal(buffers.keep(numbers(n)), numbers(n))


def test_what_is_copied_may_change_afterwards():
    x = numbers(4)
    copy = Buffers().keep(x)
    x.zero_()
    assert torch.equal(copy, numbers(4))
