"""Files: atomic writes, safetensors, fingerprints, checkpoints, saved models."""
