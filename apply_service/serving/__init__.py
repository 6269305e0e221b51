"""What `service` is made of: a request's ticket, worker processes, what callers share."""
