"""Work on a Ray cluster. Ray (the extra `cluster`) schedules, and runs again what a dead node leaves undone."""
