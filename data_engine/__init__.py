"""The nightly loop: mine, curate, fine-tune, evaluate, gate, promote, report."""
