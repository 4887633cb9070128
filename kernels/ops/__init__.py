"""One folder an operation, all of its levels side by side."""
