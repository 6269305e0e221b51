"""The editors' plugins, and the contract that they are tested against."""
