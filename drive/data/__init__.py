"""Training samples from recorded drives: selection, cache, split, augmentation and batches."""
