"""Whole dumps through the codec: reading, coding on all cores, writing, in both directions and for statistics."""
