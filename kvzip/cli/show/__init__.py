"""What stands on a page: one module for what a command shows."""
