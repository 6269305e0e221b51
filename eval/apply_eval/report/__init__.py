"""Results for readers: a table on the terminal, and one HTML file that needs nothing beside itself."""
