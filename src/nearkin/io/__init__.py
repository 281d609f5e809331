"""Files: atomic writes, safetensors, fingerprints, run folders, saved models."""
