"""What README and docs say is executed and checked."""
