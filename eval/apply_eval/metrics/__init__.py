"""From rows to figures: intervals, calibration, speed, and the summary of a run.  Pure; reads no file, runs nothing."""
