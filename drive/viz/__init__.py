"""Pictures: the quad painter that renders cameras, bird's-eye views and plots."""
