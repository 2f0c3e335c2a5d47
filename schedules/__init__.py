"""Jobs, schedules and sensors: when assets run, and what happens to a run's branch when the run ends badly."""
