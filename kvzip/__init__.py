"""kvzip."""
