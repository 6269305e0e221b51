"""More than one machine: a whole server on each device, behind Ray Serve.  docs/scaling.md says how to use it."""
