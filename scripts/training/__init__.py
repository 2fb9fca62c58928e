"""Training of the bundled models; no part of the package."""
