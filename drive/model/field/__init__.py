"""The reward field: differentiable terms on the predicted scene, refinement, guidance and reflection."""
