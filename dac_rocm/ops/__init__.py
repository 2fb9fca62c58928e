"""Functions on tensors: no parameters, no modules."""
