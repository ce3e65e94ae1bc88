"""Finding the settings that suit some data: samples of it, trials, a check on all of it, and a profile to keep."""
