"""What an editor sends and what the service answers, byte for byte, as fixtures for tests in any language."""
